/** Names of systemd's D-Bus interface (org.freedesktop.systemd1(5)). */
export const SYSTEMD = 'org.freedesktop.systemd1';

/** The address of the manager. */
export const MANAGER = {
  destination: SYSTEMD,
  path: '/org/freedesktop/systemd1',
  interface: `${SYSTEMD}.Manager`,
} as const;

/** The match of the manager's signals, without their member. */
export const MANAGER_SIGNALS = { sender: SYSTEMD, interface: MANAGER.interface, path: MANAGER.path } as const;

/** The standard interface for properties. */
export const PROPERTIES = 'org.freedesktop.DBus.Properties';
