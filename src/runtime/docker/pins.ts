import { isAbsolute, resolve } from 'node:path';
import { isCanonicalReference, parseReference } from '../../domain/model/reference.ts';
import { digestOf } from '../../platform/digest.ts';
import { type EngineContainer, type EngineImageDetails, labelNames } from './engine-answers.ts';
import type { EngineClient } from './engine-client.ts';
import { digestName, digestTagOf, type Pin } from './image-names.ts';

/**
 * A container that was made and never started holds its image (docs/runtime-facts.md, fact 54). It
 * is called `stickpin-pin-` and a part of the digest of the reference.
 */
function containerName(reference: string): string {
  return `stickpin-pin-${digestOf(Buffer.from(reference)).slice('sha256:'.length, 'sha256:'.length + 24)}`;
}

/** Returns undefined for a foreign container. */
export function pinOf({ Id, Names, ImageID, Labels }: EngineContainer): Pin | undefined {
  const reference = Labels[labelNames.pin];
  if (reference === undefined || !Names.includes(`/${containerName(reference)}`)) return undefined;
  if (!isCanonicalReference(reference) || !reference.includes('@')) return undefined;
  return { containerId: Id, reference, imageId: ImageID };
}

export async function listPins(client: EngineClient, signal: AbortSignal): Promise<Pin[]> {
  return (await client.containers(signal, { label: [labelNames.pin] })).flatMap((each) => pinOf(each) ?? []);
}

export async function removePin(client: EngineClient, { containerId }: Pin, signal: AbortSignal): Promise<void> {
  await client.removeContainer(containerId, signal, true);
}

/**
 * Names the image by the tag for its digest, and adds that tag if it was removed: the containerd
 * image store keeps the name that the container uses, not only its image.
 */
export async function addPin(
  client: EngineClient,
  { reference, imageId }: Omit<Pin, 'containerId'>,
  signal: AbortSignal,
): Promise<void> {
  const { repository, digest } = parseReference(reference);
  if (digest === undefined) return;
  const details = await client.imageDetails(imageId, signal);
  if (details === undefined || !(await client.tag(imageId, repository, digestTagOf(digest), signal))) return;
  const body = { Image: digestName(reference), ...neverRun(reference, details) };
  await client.createContainer(containerName(reference), body, signal);
}

/** Label names up to this length are overridden. */
const MAX_LABEL_NAME = 1_024;
const MAX_LABELS = 1_000;

/** It never runs the image, and hides its labels and variables as far as engines allow. */
function neverRun(reference: string, { Config }: EngineImageDetails): object {
  const { Volumes = {}, Labels = {}, Env = [] } = Config ?? {};
  const inherited = Object.keys(Labels).filter((name) => name.length <= MAX_LABEL_NAME);
  const blank = inherited.slice(0, MAX_LABELS).map((name) => [name, ''] as const);
  return {
    Labels: { ...Object.fromEntries(blank), [labelNames.pin]: reference },
    Env: Env.slice(0, MAX_LABELS).map((each) => `${each.split('=', 1)[0]}=`),
    // An image without a command would be refused.
    Entrypoint: [],
    Cmd: ['/stickpin-pin'],
    User: '0:0',
    WorkingDir: '/',
    StopSignal: 'SIGTERM',
    Healthcheck: { Test: ['NONE'] },
    NetworkDisabled: true,
    HostConfig: {
      NetworkMode: 'none',
      RestartPolicy: { Name: 'no' },
      // Otherwise the engine makes volumes, and copies what the image has there.
      Mounts: mountPoints(Volumes).map((Target) => ({ Type: 'tmpfs', Target })),
    },
  };
}

/** Each once, without those that no engine mounts. */
function mountPoints(volumes: object): string[] {
  const paths = Object.keys(volumes)
    .filter(isAbsolute)
    .map((path) => resolve(path));
  return [...new Set(paths)].filter((path) => path !== '/');
}
