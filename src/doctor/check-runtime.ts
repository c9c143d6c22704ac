import { stat } from 'node:fs/promises';
import { runtimeSupport } from '../domain/assess/derive-phase.ts';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { minFreePercent } from '../domain/preload/space.ts';
import { reasonText } from '../domain/report/reasons/reason-text.ts';
import { supportText } from '../domain/report/texts/short-texts.ts';
import { reasonOf } from '../platform/app-error.ts';
import { formatBytes } from '../platform/sizes.ts';
import type { Check, ExaminedNode, ExaminedRuntime, FilesystemSpace, Found } from './check.ts';

export function checkRuntime({ findRuntime, settings, facts }: ExaminedNode): readonly Check[] {
  const remedy =
    "look whether the container runtime runs, as with 'systemctl status crio containerd docker', then run 'stickpin doctor' again";
  const run = async (signal: AbortSignal): Promise<Found> => {
    if (settings.runtime.kind === 'embedded') return EMBEDDED;
    const runtime = await findRuntime(signal);
    if (runtime === undefined) return NO_RUNTIME;
    try {
      await runtime.status(signal);
      const mirrors = await judgeMirrors(runtime, signal);
      const version = await judgeVersion(runtime, signal);
      const pins = runtime.losesPins && settings.retention.blobs !== 'kept' && LOSES_PINS;
      return [version, mirrors, pins, await judgeSpace(runtime, minFreePercent(settings.preload, facts), signal)];
    } catch (error) {
      signal.throwIfAborted();
      return silentRuntime(runtime, error);
    } finally {
      runtime.close();
    }
  };
  return [{ subject: 'runtime', remedy, run }];
}

const { ok, warning, fault } = findingsOn('runtime');
const EMBEDDED = ok('the images are kept in a folder, and no container runtime is used (runtime.kind = "embedded")');

const NO_RUNTIME = fault(
  'none of CRI-O, containerd, Docker and Podman was found',
  'install one, or set runtime.socket in /etc/stickpin/stickpin.toml',
);

const LOSES_PINS = warning(
  "'system prune' of the runtime removes pins and images, and its layers are then needed from a stick again",
  'set retention.blobs = "kept" in /etc/stickpin/stickpin.toml, so that they are loaded again from this node',
);

async function silentRuntime({ title, socketPath }: ExaminedRuntime, error: unknown): Promise<Finding> {
  const exists = (await stat(socketPath).catch(() => undefined)) !== undefined;
  const how = exists ? `is there, but: ${reasonOf(error)}` : 'is not there';
  return fault(
    `${title} does not answer: ${socketPath} ${how}`,
    'start the runtime; its own journal tells why it does not run',
  );
}

async function judgeVersion(runtime: ExaminedRuntime, signal: AbortSignal): Promise<Found> {
  let name: string;
  try {
    name = await runtime.version(signal);
  } catch (error) {
    signal.throwIfAborted();
    const message = `the runtime answers on ${runtime.socketPath}, but does not say its version: ${reasonOf(error)}`;
    return warning(message, UNKNOWN_VERSION);
  }
  const answers = ok(`${fullName(name, runtime)} answers on ${runtime.socketPath}`);
  const support = runtimeSupport(name);
  if (support.kind === 'supported') return answers;
  if (support.kind === 'unsupported') {
    return fault(reasonText(support.reason), 'upgrade the runtime, then restart it');
  }
  return [answers, warning(supportText(support), UNKNOWN_VERSION)];
}

/** `containerd v1.7.24 of k3s`; the owner is left out if the runtime's name includes it. */
function fullName(name: string, { title }: ExaminedRuntime): string {
  return name.toLowerCase().startsWith(title.toLowerCase()) ? name : `${name} of ${title}`;
}

/** The setting is in the table of containerd 2 or of 1.7. */
const CONFIG_PATH_REMEDY =
  'set config_path = "/etc/containerd/certs.d" in /etc/containerd/config.toml, in the table [plugins."io.containerd.cri.v1.images".registry] of a file with version = 3, or [plugins."io.containerd.grpc.v1.cri".registry] of an older one, and restart containerd';

const UNKNOWN_VERSION =
  'check that it is CRI-O 1.28, containerd 1.7, Docker 20.10, Podman 4.0 or newer; stickpin continues with it';

async function judgeMirrors(runtime: ExaminedRuntime, signal: AbortSignal): Promise<Found> {
  const { kind } = await runtime.mirrors(signal);
  const why =
    'containerd reads no mirrors, so that nothing can be pulled from a stick: its configuration sets no config_path';
  return kind === 'unset' && fault(why, CONFIG_PATH_REMEDY);
}

async function judgeSpace(runtime: ExaminedRuntime, percent: number, signal: AbortSignal): Promise<Found> {
  const space = findingsOn('space');
  let filesystem: FilesystemSpace | undefined;
  try {
    filesystem = await runtime.imageFilesystem(signal);
  } catch (error) {
    signal.throwIfAborted();
    const message = `the runtime runs, but it was not found out where it keeps images: ${reasonOf(error)}`;
    return space.warning(message, "run stickpin doctor again; if that does not help, read the runtime's own journal");
  }
  if (filesystem === undefined)
    return space.warning(
      'the runtime does not say where it keeps images, so that room for a release is not checked before it is pulled',
      'see to it that there is room before a stick is plugged in; stickpin tells when a pull runs out of space',
    );
  const { freeBytes, totalBytes } = filesystem;
  const reserved = (totalBytes * percent) / 100;
  const room = `${formatBytes(freeBytes)} free on ${filesystem.path}, and ${formatBytes(reserved)} (${percent} %) must stay free`;
  if (freeBytes > reserved) return space.ok(room);
  return space.warning(`${room}: no release can be pulled`, 'make room there, or set a lower preload.min_free_percent');
}
