import { stat } from 'node:fs/promises';
import { runtimeSupport } from '../domain/assess/runtime-support.ts';
import { type Finding, findingsOn } from '../domain/model/finding.ts';
import { reasonOf } from '../platform/app-error.ts';
import { systemClock } from '../platform/clock.ts';
import { formatBytes } from '../platform/sizes.ts';
import { registryConfigPath } from '../runtime/containerd/registry-config-path.ts';
import { callAgain } from '../runtime/cri/call-again.ts';
import { type CriClient, createCriClient } from '../runtime/cri/cri-client.ts';
import { filesystemAt } from '../runtime/cri/observe.ts';
import type { RuntimeCandidate } from '../runtime/detect.ts';
import type { Check } from './run-checks.ts';

/** What {@link checkRuntime} needs. */
export interface RuntimeCheckOptions {
  /** The runtime of this node; undefined when none is to be found. */
  readonly detect: (
    signal: AbortSignal,
  ) => Promise<Pick<RuntimeCandidate, 'kind' | 'title' | 'socketPath'> | undefined>;
  /** Share of the image filesystem that is to stay free, in percent. */
  readonly minFreePercent: number;
}

/** Whether the runtime answers, reads mirrors, and has room for images. */
export function checkRuntime({ detect, minFreePercent }: RuntimeCheckOptions): Check {
  const { fault } = findingsOn('runtime');
  return {
    subject: 'runtime',
    remedy:
      "look whether the container runtime runs, as with 'systemctl status crio containerd', then run 'stickpin doctor' again",
    look: async (signal) => {
      const candidate = await detect(signal);
      if (candidate === undefined) {
        return [
          fault(
            'neither CRI-O nor containerd was found',
            'install one, or set runtime.socket in /etc/stickpin/stickpin.toml',
          ),
        ];
      }
      const { kind, title, socketPath } = candidate;
      const cri = createCriClient({ socketPath });
      try {
        await callAgain(cri.status, systemClock, signal);
        const mirrors = kind === 'containerd' ? await lookAtConfigPath(await cri.statusInfo(signal)) : [];
        return [...(await lookAtVersion(cri, signal)), ...mirrors, ...(await lookAtSpace(cri, minFreePercent, signal))];
      } catch (error) {
        signal.throwIfAborted();
        const exists = (await stat(socketPath).catch(() => undefined)) !== undefined;
        const how = exists ? `is there, but: ${reasonOf(error)}` : 'is not there';
        return [
          fault(
            `${title} does not answer: ${socketPath} ${how}`,
            'start the runtime; its own journal tells why it does not run',
          ),
        ];
      } finally {
        cri.close();
      }
    },
  };
}

async function lookAtVersion(
  cri: Pick<CriClient, 'version' | 'socketPath'>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { ok, warning, fault } = findingsOn('runtime');
  let name: string;
  try {
    name = await callAgain(cri.version, systemClock, signal);
  } catch (error) {
    signal.throwIfAborted();
    const message = `the runtime answers on ${cri.socketPath}, but does not say its version: ${reasonOf(error)}`;
    return [warning(message, UNKNOWN_VERSION)];
  }
  const answers = ok(`${name} answers on ${cri.socketPath}`);
  const support = runtimeSupport(name);
  if (support.kind === 'unsupported') return [fault(support.reason.message, 'upgrade the runtime, then restart it')];
  return support.kind === 'supported' ? [answers] : [answers, warning(support.why, UNKNOWN_VERSION)];
}

const UNKNOWN_VERSION = 'see to it that it is CRI-O 1.28, containerd 1.7 or newer; stickpin goes on with it';

async function lookAtConfigPath(info: Readonly<Record<string, string>>): Promise<readonly Finding[]> {
  if (registryConfigPath(info).kind !== 'unset') return [];
  return [
    findingsOn('runtime').fault(
      'containerd reads no mirrors, so that nothing can be pulled from a stick: its configuration sets no config_path',
      'add [plugins."io.containerd.grpc.v1.cri".registry] config_path = "/etc/containerd/certs.d" to /etc/containerd/config.toml and restart containerd',
    ),
  ];
}

async function lookAtSpace(
  cri: Pick<CriClient, 'imageFilesystemPath'>,
  minFreePercent: number,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { ok, warning } = findingsOn('space');
  let path: string | undefined;
  try {
    path = await callAgain(cri.imageFilesystemPath, systemClock, signal);
  } catch (error) {
    signal.throwIfAborted();
    const message = `the runtime runs, but it was not found out where it keeps images: ${reasonOf(error)}`;
    return [warning(message, "run stickpin doctor again; if it goes on, the runtime's own journal tells why")];
  }
  const filesystem = path === undefined ? undefined : await filesystemAt(path);
  if (filesystem === undefined)
    return [
      warning(
        'the runtime does not say where it keeps images, so that room for a release is not checked before it is pulled',
        'see to it that there is room before a stick is plugged in; stickpin tells when a pull runs out of space',
      ),
    ];
  const { freeBytes, totalBytes } = filesystem;
  const reserved = (totalBytes * minFreePercent) / 100;
  const room = `${formatBytes(freeBytes)} free on ${filesystem.path}, of which ${formatBytes(Math.min(freeBytes, reserved))} are reserved`;
  if (freeBytes > reserved) return [ok(room)];
  return [
    warning(`${room}: no release can be pulled`, 'make room there; kubelet collects images at that mark as well'),
  ];
}
