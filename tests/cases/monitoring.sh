#!/bin/bash
# SPDX-License-Identifier: MIT
# Metrics on their whole way, with Debian's programs: hugepinctl writes them, node_exporter's textfile collector serves them,
# prometheus takes them in, an alert fires. And alerts and dashboard name no metric that hugepinctl does not have.
# Prints TAP and, last, "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.." || exit 2
work=$(mktemp -d)
passed=0 failed=0
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$work"' EXIT

check() { # DESCRIPTION COMMAND…
	local what=$1
	shift
	if "$@" >"$work/out" 2>&1; then
		passed=$((passed + 1))
		echo "ok $((passed + failed)) - $what"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $((passed + failed)) - $what"
	sed 's/^/# /' "$work/out"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
get() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())' "$1"; }
within() { # SECONDS COMMAND…
	local end=$((SECONDS + $1))
	shift
	until "$@" 2>/dev/null; do
		[ $SECONDS -lt $end ] || { "$@"; return 1; }
		sleep 0.3
	done
}

names_exist() { # FILE
	local name status=0
	while read -r name; do
		grep -q "\"$name\"" user/hugepinctl/metrics.c || { echo "$1: hugepinctl has no $name"; status=1; }
	done < <(grep -oE '\bhugepin_[a-z_]+' "$1" | sort -u)
	return $status
}
query() { # TEXT: it is there
	get "http://127.0.0.1:$prometheus/api/v1/query?query=$1" | grep -q "$2"
}
alert_fires() { get "http://127.0.0.1:$prometheus/api/v1/alerts" | grep -q 'HugepinDown.*firing'; }

check 'the rules are rules' promtool check rules user/monitoring/alerts.yml
check 'the alerts fire when they should and not before' promtool test rules user/monitoring/alerts_test.yml
check 'alerts name metrics that there are' names_exist user/monitoring/alerts.yml
check 'the dashboard too' names_exist user/monitoring/dashboard.json
check 'the dashboard is JSON' python3 -m json.tool user/monitoring/dashboard.json

build/bin/hugepinctl metrics --output "$work/hugepin.prom" >"$work/out" 2>&1
up=$(awk '$1 == "hugepin_up" { print $2 }' "$work/hugepin.prom")
check 'hugepinctl writes the file' test -n "$up"
exporter=$(free_port) prometheus=$(free_port)
prometheus-node-exporter --web.listen-address="127.0.0.1:$exporter" --collector.disable-defaults --collector.textfile \
	--collector.textfile.directory="$work" >"$work/exporter.log" 2>&1 &
sed 's/for: 5m/for: 1s/' user/monitoring/alerts.yml >"$work/alerts.yml"
cat >"$work/prometheus.yml" <<-END
	global: {scrape_interval: 1s, evaluation_interval: 1s}
	rule_files: [$work/alerts.yml]
	scrape_configs:
	  - job_name: node
	    static_configs: [{targets: ["127.0.0.1:$exporter"]}]
END
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
	--web.listen-address="127.0.0.1:$prometheus" >"$work/prometheus.log" 2>&1 &
check 'node_exporter serves it' within 30 eval "get http://127.0.0.1:$exporter/metrics | grep -q '^hugepin_up $up'"
check 'prometheus has it' within 60 query hugepin_up "\"$up\""
check '… with the version' within 30 query hugepin_build_info version
if [ "$up" = 0 ]; then
	check 'the alert for a module that is not there fires' within 60 alert_fires
else
	echo "ok $((passed + failed + 1)) # SKIP the module is loaded here"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
