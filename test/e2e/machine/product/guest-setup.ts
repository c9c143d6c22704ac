import type { GuestFile } from '../qemu/disk.ts';

/**
 * Units of a Debian system that no test looks at. Masked, since each start costs the emulated
 * machine a noticeable part of a second, at each of the boots of a run. The console's getty must go
 * for another reason: the serial port is the log.
 */
const maskedUnits = [
  'dev-hugepages.mount',
  'dev-mqueue.mount',
  'sys-fs-fuse-connections.mount',
  'sys-kernel-config.mount',
  'sys-kernel-debug.mount',
  'sys-kernel-tracing.mount',
  'modprobe@configfs.service',
  'modprobe@drm.service',
  'modprobe@fuse.service',
  'systemd-creds.socket',
  'systemd-hostnamed.socket',
  'systemd-initctl.socket',
  'systemd-sysext.socket',
  'systemd-modules-load.service',
  'systemd-random-seed.service',
  'systemd-remount-fs.service',
  'systemd-tmpfiles-clean.timer',
  'systemd-udev-load-credentials.service',
  'systemd-user-sessions.service',
  'apt-daily-upgrade.timer',
  'apt-daily.timer',
  'dpkg-db-backup.timer',
  'e2scrub_all.timer',
  'e2scrub_reap.service',
  'fstrim.timer',
  'getty@tty1.service',
  'serial-getty@ttyS0.service',
  'systemd-pstore.service',
  'systemd-binfmt.service',
  'proc-sys-fs-binfmt_misc.automount',
  'systemd-network-generator.service',
  'systemd-update-utmp.service',
  'systemd-battery-check.service',
  'systemd-ask-password-console.path',
  'systemd-ask-password-wall.path',
];

/** The tag by which the guest knows the folder that it shares with the host (9p). */
export const sharedFolderTag = 'host';

/** Where the guest mounts that folder. */
export const sharedFolder = '/mnt/host';

const filesystems = `/dev/vda / ext4 noatime 0 0
${sharedFolderTag} ${sharedFolder} 9p trans=virtio,version=9p2000.L,msize=512000,noauto 0 0
`;

const containerdConfiguration = `version = 2

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "/etc/containerd/certs.d"
`;

/** On a busy host an emulated machine is slower than any node. */
const patience = '[Service]\nTimeoutStartSec=300\nTimeoutStopSec=120\nWatchdogSec=300\n';

/**
 * What makes a node out of the root folder. The runtimes (`containerd.service`, `crio.service`) are
 * installed but don't start by themselves: a scenario starts or enables the one that it is about.
 */
export const guestSetup: readonly GuestFile[] = [
  { path: '/etc/fstab', content: filesystems },
  { path: `${sharedFolder}/.keep`, content: '' },
  { path: '/etc/hostname', content: 'node1\n' },
  { path: '/etc/hosts', content: '127.0.0.1 localhost node1\n' },
  { path: '/etc/machine-id', content: '5f3a1c0be7d24c6e9b1d0a8c7e6f5d4b\n' },
  // Newer than anything below /usr: nothing is to be rebuilt at the first boot.
  { path: '/etc/.updated', content: '' },
  { path: '/var/.updated', content: '' },
  { path: '/etc/systemd/journald.conf.d/storage.conf', content: '[Journal]\nStorage=persistent\nRateLimitBurst=0\n' },
  { path: '/etc/systemd/system.conf.d/timeouts.conf', content: '[Manager]\nDefaultTimeoutStartSec=180s\n' },
  ...['', '-console', '-fleet', '-sources'].map((part) => ({
    path: `/etc/systemd/system/stickpin${part}.service.d/50-patience.conf`,
    content: patience,
  })),
  // The agent tells the journal of each question it is asked.
  { path: '/etc/systemd/system/qemu-guest-agent.service.d/quiet.conf', content: '[Service]\nLogLevelMax=notice\n' },
  // With SELinux: commands run as those of a person, and what is denied gets into the journal.
  {
    path: '/etc/systemd/system/qemu-guest-agent.service.d/person.conf',
    content: '[Service]\nSELinuxContext=-unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023\n',
  },
  {
    path: '/etc/systemd/system/sockets.target.wants/systemd-journald-audit.socket',
    link: '/usr/lib/systemd/system/systemd-journald-audit.socket',
  },
  { path: '/etc/containerd/config.toml', content: containerdConfiguration },
  { path: '/etc/systemd/system/multi-user.target.wants/containerd.service', absent: true },
  { path: '/etc/systemd/system/default.target', link: '/usr/lib/systemd/system/multi-user.target' },
  ...maskedUnits.map((unit) => ({ path: `/etc/systemd/system/${unit}`, link: '/dev/null' })),
];
