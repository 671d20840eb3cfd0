# SPDX-License-Identifier: MIT
# What a host needs from boot on: unit, group, device's mode, initial ram disk; and what clusters and monitoring take.

SBINDIR ?= $(PREFIX)/sbin
UNITDIR ?= $(PREFIX)/lib/systemd/system
UDEVDIR ?= $(PREFIX)/lib/udev
DATADIR ?= $(PREFIX)/share

BOOT_MAN := 4/hugepin 5/hugepin.conf 5/hugepinfs 8/hugepin-boot

install: install-boot
.PHONY: install-boot
install-boot:
	install -d $(DESTDIR)$(SBINDIR) $(DESTDIR)$(SYSCONFDIR) $(DESTDIR)$(UNITDIR) $(DESTDIR)$(UDEVDIR)/rules.d \
		$(DESTDIR)$(PREFIX)/lib/sysusers.d $(addprefix $(DESTDIR)$(MANDIR)/man,4 5 8) \
		$(DESTDIR)$(DATADIR)/initramfs-tools/hooks $(DESTDIR)$(DATADIR)/initramfs-tools/scripts/init-top
	install -m 755 user/boot/hugepin-boot $(DESTDIR)$(SBINDIR)
	test -e $(DESTDIR)$(SYSCONFDIR)/hugepin.conf || \
		install -m 644 user/boot/hugepin.conf $(DESTDIR)$(SYSCONFDIR)
	for unit in user/boot/*.service user/boot/*.timer; do \
		sed 's|@SBINDIR@|$(SBINDIR)|g; s|@BINDIR@|$(BINDIR)|g' $$unit >$(DESTDIR)$(UNITDIR)/$${unit##*/} || exit; \
	done
	install -m 644 user/boot/60-hugepin.rules $(DESTDIR)$(UDEVDIR)/rules.d
	install -m 644 user/boot/hugepin.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/hugepin.conf
	install -m 755 user/boot/initramfs/hook $(DESTDIR)$(DATADIR)/initramfs-tools/hooks/hugepin
	install -m 755 user/boot/initramfs/premount $(DESTDIR)$(DATADIR)/initramfs-tools/scripts/init-top/hugepin
	for page in $(BOOT_MAN); do \
		install -m 644 Documentation/man/$${page#*/}.$${page%/*} $(DESTDIR)$(MANDIR)/man$${page%/*} || exit; \
	done
	for folder in slurm kubernetes monitoring; do \
		install -d $(DESTDIR)$(DATADIR)/hugepin/$$folder || exit; \
		find user/$$folder -maxdepth 1 -type f -perm /100 -exec install -m 755 -t $(DESTDIR)$(DATADIR)/hugepin/$$folder {} + ; \
		find user/$$folder -maxdepth 1 -type f ! -perm /100 -exec install -m 644 -t $(DESTDIR)$(DATADIR)/hugepin/$$folder {} + ; \
	done
