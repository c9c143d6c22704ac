/** Names of systemd's D-Bus interface (org.freedesktop.systemd1(5)). */
export const SYSTEMD = 'org.freedesktop.systemd1';

/** Where calls to the manager go. */
export const MANAGER = {
  destination: SYSTEMD,
  path: '/org/freedesktop/systemd1',
  interface: `${SYSTEMD}.Manager`,
} as const;

/** Which signals of the manager are meant, without their member. */
export const MANAGER_SIGNALS = { sender: SYSTEMD, interface: MANAGER.interface, path: MANAGER.path } as const;

/** The standard interface for properties. */
export const PROPERTIES = 'org.freedesktop.DBus.Properties';
