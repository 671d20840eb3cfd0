# SPDX-License-Identifier: MIT
# Debian packages, built from a copy of the tree as it stands, so that nothing of it changes.

DEB_DIR := $(O)/deb
DEB_DATE = $(shell LC_ALL=C date -R -d "@$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)}")

.PHONY: deb
deb:
	rm -rf $(DEB_DIR)
	mkdir -p $(DEB_DIR)/hugepin-$(VERSION)
	if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then git ls-files -z --cached --others --exclude-standard; \
		else find . -path ./$(O) -prune -o -type f -print0; fi | \
		tar --create --null --files-from=- --ignore-failed-read 2>/dev/null | tar --extract --directory=$(DEB_DIR)/hugepin-$(VERSION)
	mv $(DEB_DIR)/hugepin-$(VERSION)/user/packaging/debian $(DEB_DIR)/hugepin-$(VERSION)/debian
	sed -e 's|@VERSION@|$(VERSION)|; s|@DATE@|$(DEB_DATE)|' user/packaging/debian/changelog.in \
		>$(DEB_DIR)/hugepin-$(VERSION)/debian/changelog
	rm $(DEB_DIR)/hugepin-$(VERSION)/debian/changelog.in
	cd $(DEB_DIR)/hugepin-$(VERSION) && env -u MAKEFLAGS -u MAKELEVEL -u O dpkg-buildpackage --no-sign --build=binary
	rm -rf $(DEB_DIR)/hugepin-$(VERSION)
