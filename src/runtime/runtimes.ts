import { join } from 'node:path';
import { RUNTIMES, type RuntimeName } from '../domain/model/runtimes.ts';
import type { Settings } from '../domain/settings/settings.ts';
import type { Clock } from '../platform/clock.ts';
import { defined } from '../platform/defined.ts';
import type { Log } from '../platform/log.ts';
import type { UnitControl } from '../ports/node.ts';
import type { MirrorAddress } from './config/toml-text.ts';
import { createContainerdRuntime } from './containerd/containerd-runtime.ts';
import { CriClient } from './cri/cri-client.ts';
import { crioPathsOf } from './crio/crio-config.ts';
import { createCrioRuntime } from './crio/crio-runtime.ts';
import { createDockerRuntime } from './docker/docker-runtime.ts';
import { EngineClient } from './docker/engine-client.ts';
import type { RuntimeAdapter } from './runtime-adapter.ts';

/** A runtime with its paths. */
export interface RuntimeCandidate {
  readonly kind: RuntimeName;
  /** Name for display: `k3s`. */
  readonly title: string;
  readonly socketPath: string;
  /** One of these units runs it. */
  readonly unitNames: readonly string[];
  /** The directory of this distribution, if it has one. */
  readonly certsDirectory?: string;
  /** Exists when the runtime is installed. */
  readonly trace: string;
  /** It is found only there. Default: everywhere. */
  readonly on?: 'docker-node' | 'other-node' | 'no-kubelet';
}

export interface RuntimeChoice {
  readonly settings: Settings;
  readonly units: UnitControl;
  readonly mirror: MirrorAddress;
  readonly arch: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** The common part of CRI and Docker's API. Nothing is connected before the first call. */
export interface ProbeClient extends Pick<CriClient, 'version' | 'status' | 'imageFilesystemPath' | 'close'> {
  /** The images in the form of the runtime. */
  listImages(signal: AbortSignal): Promise<readonly object[]>;
}

interface RuntimeKind extends Pick<RuntimeCandidate, 'socketPath' | 'unitNames' | 'trace'> {
  /** Whether `system prune` removes pins and images. */
  readonly losesPins: boolean;
  readonly probe: (socketPath: string, timeoutMs?: number) => ProbeClient;
  readonly build: (candidate: RuntimeCandidate, choice: RuntimeChoice) => RuntimeAdapter;
}

const CRI = {
  losesPins: false,
  probe: (socketPath: string, timeoutMs?: number) => new CriClient(defined({ socketPath, timeoutMs })),
};
const ENGINE = {
  losesPins: true,
  probe: (socketPath: string, timeoutMs?: number) => new EngineClient(socketPath, timeoutMs),
  build: (candidate: RuntimeCandidate, choice: RuntimeChoice) => createDockerRuntime({ ...candidate, ...choice }),
};

/** All that the daemon and `doctor` know of a kind of runtime, but what its folder has. */
export const KINDS: Readonly<Record<RuntimeName, RuntimeKind>> = {
  'cri-o': {
    ...CRI,
    socketPath: '/var/run/crio/crio.sock',
    unitNames: ['crio.service'],
    trace: '/etc/crio',
    build: ({ socketPath }, { settings, ...choice }) =>
      createCrioRuntime({ ...choice, socketPath, unit: settings.crio.unit, paths: crioPathsOf(settings) }),
  },
  containerd: {
    ...CRI,
    socketPath: '/run/containerd/containerd.sock',
    unitNames: ['containerd.service'],
    trace: '/etc/containerd',
    build: (candidate, { settings, ...choice }) =>
      createContainerdRuntime({
        ...choice,
        ...candidate,
        foldersFile: join(settings.paths.state_dir, 'mirror-folders'),
      }),
  },
  docker: {
    ...ENGINE,
    socketPath: '/run/docker.sock',
    unitNames: ['docker.service', 'docker.socket'],
    trace: '/var/lib/docker',
  },
  podman: {
    ...ENGINE,
    socketPath: '/run/podman/podman.sock',
    unitNames: ['podman.service', 'podman.socket'],
    trace: '/run/podman/podman.sock',
  },
};

/** The candidate at its usual place. */
export function plainCandidate(kind: RuntimeName): RuntimeCandidate {
  const { socketPath, unitNames, trace } = KINDS[kind];
  return { kind, title: RUNTIMES[kind].title, socketPath, unitNames, trace };
}
