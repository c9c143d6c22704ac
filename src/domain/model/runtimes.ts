/**
 * Keys are the names in the setting `runtime.kind` and in CRI's `Version`. `least` is the oldest
 * version that reports pins over CRI, or has version 1.41 of Docker's API.
 */
export const RUNTIMES = {
  'cri-o': { title: 'CRI-O', least: { major: 1, minor: 28 } },
  containerd: { title: 'containerd', least: { major: 1, minor: 7 } },
  docker: { title: 'Docker', least: { major: 20, minor: 10 } },
  podman: { title: 'Podman', least: { major: 4, minor: 0 } },
} as const;

export type RuntimeName = keyof typeof RUNTIMES;

export const RUNTIME_NAMES = Object.keys(RUNTIMES) as readonly RuntimeName[];
