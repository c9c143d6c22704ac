/** What the page uses of cockpit.js (https://cockpit-project.org/guide/latest/api-cockpit). */

interface CockpitError extends Error {
  /** `access-denied`, `not-found`, `terminated`; undefined for errors of D-Bus services. */
  readonly problem: string | null;
}

interface CockpitDbus {
  call(
    path: string,
    iface: string,
    method: string,
    args: readonly unknown[],
    options?: { type?: string },
  ): Promise<readonly unknown[]>;
  subscribe(
    match: { path_namespace?: string; interface?: string },
    listener: (path: string, iface: string, signal: string, args: readonly unknown[]) => void,
  ): { remove(): void };
  addEventListener(type: 'owner', listener: (event: Event, owner: string | null) => void): void;
  addEventListener(
    type: 'close',
    listener: (event: Event, options: { problem?: string; message?: string }) => void,
  ): void;
  proxy(iface: 'cockpit.Superuser', path: '/superuser'): CockpitSuperuser;
  close(): void;
}

interface CockpitSuperuser {
  /** How root is reached: `sudo`, or `none` without administrative access. */
  readonly Current?: string;
  addEventListener(type: 'changed', listener: () => void): void;
}

interface CockpitProcess<Output> extends Promise<Output> {
  close(problem: string): void;
  stream(listener: (data: Output) => number | undefined): CockpitProcess<Output>;
}

interface CockpitSpawnOptions {
  superuser?: 'require' | 'try';
  err?: 'message' | 'out' | 'ignore';
}

interface CockpitLocation {
  readonly path: readonly string[];
  go(path: readonly string[]): void;
}

declare const cockpit: {
  dbus(
    name: string | null,
    options: { bus: 'system' | 'internal'; superuser?: 'require' | 'try'; track?: boolean },
  ): CockpitDbus;
  file(
    path: string,
    options: { max_read_size: number; superuser?: 'try' },
  ): {
    watch(listener: (content: string | null, tag: string, error?: CockpitError) => void): { remove(): void };
    close(): void;
  };
  spawn(args: readonly string[], options: CockpitSpawnOptions & { binary: true }): CockpitProcess<Uint8Array>;
  spawn(args: readonly string[], options?: CockpitSpawnOptions): CockpitProcess<string>;
  readonly location: CockpitLocation;
  addEventListener(type: 'locationchanged', listener: () => void): void;
  readonly hidden: boolean;
  /** pkg/lib/notifications.ts: `page_status` is the icon of this page in the menu. */
  readonly transport: {
    control(
      command: 'notify',
      options: { readonly page_status: { readonly type: string; readonly title: string } | null },
    ): void;
  };
};
