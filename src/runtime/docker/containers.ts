import type { ImageUse, RuntimeContainer } from '../../domain/model/image.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import { isSure, MAX_NAME, userOf } from '../cri/containers.ts';
import { type EngineContainerDetails, labelNames } from './engine-answers.ts';
import type { EngineClient } from './engine-client.ts';
import { fullName } from './image-names.ts';
import { pinOf } from './pins.ts';

const PARALLEL = 4;

type Listed = EngineContainerDetails | 'unread';

/** Pins are left out. The list lacks times and exit codes, so each container is read separately. */
async function listed(client: EngineClient, signal: AbortSignal): Promise<Listed[]> {
  const found = (await client.containers(signal)).filter((each) => pinOf(each) === undefined);
  const details = new Map<string, Listed>();
  await forEachLimited(found, PARALLEL, signal, async ({ Id }, inner) => {
    const one = await client.containerDetails(Id, inner);
    if (one !== undefined) details.set(Id, one);
  });
  return found.flatMap(({ Id }) => details.get(Id) ?? []);
}

/** INVARIANT: one that could not be read may use any image, so that none is removed. */
const UNKNOWN: RuntimeContainer = {
  ...{ containerId: '', key: '', attempt: 0, imageNames: [], volumeImages: 'unknown' },
  ...{ state: 'other', startedAt: 0, exitCode: 0 },
};

export async function listContainers(client: EngineClient, signal: AbortSignal): Promise<RuntimeContainer[]> {
  return (await listed(client, signal)).map((each): RuntimeContainer => {
    if (each === 'unread') return UNKNOWN;
    const { Id, Image, State, Config, Mounts } = each;
    const state = stateOf(each);
    const startedAt = Date.parse(State.StartedAt);
    const podImage = fullName(Config.Image);
    const volumeImages = Mounts.flatMap(({ Type, Source, Name }) => (Type === 'image' ? (Source ?? Name ?? []) : []));
    return {
      containerId: Id,
      ...identityOf(each),
      imageNames: [Image, Config.Image].filter(isSure),
      state,
      startedAt: state === 'other' || !(startedAt > 0) ? 0 : startedAt,
      exitCode: state === 'other' ? 0 : State.ExitCode,
      isStartable: kubeletLabels(each)[labelNames.sandbox] === undefined,
      ...(podImage !== undefined && !isSure(Config.Image) && { podImage }),
      ...(volumeImages.length > 0 && { volumeImages }),
    };
  });
}

export async function imagesInUse(client: EngineClient, signal: AbortSignal): Promise<ImageUse[]> {
  return (await listed(client, signal)).flatMap((each): ImageUse[] => {
    if (each === 'unread') return [{ usedBy: 'a container that can not be read', image: '', pullPolicy: 'Never' }];
    const { Image, Config } = each;
    if (stateOf(each) !== 'running') return [];
    const usedBy = userOf(kubeletLabels(each), containerName(each));
    return [{ usedBy, image: (fullName(Config.Image) ?? Image).slice(0, MAX_NAME) }];
  });
}

function identityOf(each: EngineContainerDetails): Pick<RuntimeContainer, 'key' | 'attempt'> {
  const { [labelNames.sandbox]: sandbox, [labelNames.restarts]: restarts = '' } = kubeletLabels(each);
  if (sandbox === undefined) return { key: containerName(each), attempt: each.RestartCount };
  const attempt = /^\d{1,9}$/.test(restarts) ? Number(restarts) : 0;
  return { key: `${sandbox}/${containerName(each)}`, attempt };
}

function containerName(each: EngineContainerDetails): string {
  return kubeletLabels(each)[labelNames.container] ?? each.Name.replace(/^\//, '');
}

/**
 * cri-dockerd and dockershim name their containers so. INVARIANT: labels of any other are not
 * believed, since a container inherits them from its image.
 */
function kubeletLabels({ Name, Config }: EngineContainerDetails): EngineContainerDetails['Config']['Labels'] {
  return Name.startsWith('/k8s_') ? Config.Labels : {};
}

/** A container that waits for its next start has ended. */
function stateOf({ State: { Status } }: EngineContainerDetails): RuntimeContainer['state'] {
  if (Status === 'running' || Status === 'paused') return 'running';
  return ['exited', 'dead', 'restarting', 'stopped'].includes(Status) ? 'exited' : 'other';
}
