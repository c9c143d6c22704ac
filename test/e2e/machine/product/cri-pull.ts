import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { bundleProgram } from '../../../support/bundles/bundle-program.ts';
import type { CriPull } from '../../../support/cri-pull/cri-pull.ts';
import { criProtoFile } from '../../../support/crio-double/bundle.ts';
import type { Machine } from '../machine.ts';
import { guestNodePath } from './guest-node.ts';

const program = fileURLToPath(new URL('../../../support/cri-pull/main.ts', import.meta.url));
const folder = '/usr/local/lib/cri-pull';

/** Forced pulls over CRI in the guest, as kubelet makes them. */
export type CriPuller = (images: readonly string[]) => Promise<readonly CriPull[]>;

/** As kubelet does, until all succeed: one fails while the runtime does not answer stickpin. */
export async function pullAll(machine: Machine, pull: CriPuller, images: readonly string[]): Promise<void> {
  await machine.until('all images to be pulled', async () => {
    const pulls = await pull(images);
    expect(pulls.filter(({ failure }) => failure !== undefined)).toEqual([]);
    expect(pulls.map(({ image }) => image)).toEqual(images);
    return true;
  });
}

/** Brings the program that pulls to the guest. Its start takes seconds, which no pull counts. */
export async function installCriPuller(machine: Machine, socketPath: string): Promise<CriPuller> {
  const scratch = await mkdtemp(join(tmpdir(), 'stickpin-cri-pull-'));
  try {
    const bundle = join(scratch, 'main.cjs');
    await bundleProgram(program, bundle);
    const shared = await machine.share(bundle);
    const proto = await machine.share(criProtoFile);
    const protoFolder = `${folder}/runtime/v1`;
    const copies = [`cp ${shared} ${folder}/main.cjs`, `cp ${proto} ${protoFolder}/api.proto`];
    // A power cut may follow.
    await machine.output([`mkdir -p ${protoFolder}`, ...copies, 'sync'].join(' && '));
  } finally {
    await rm(scratch, { recursive: true });
  }
  const command = `${guestNodePath} ${folder}/main.cjs --socket ${socketPath} --proto-root ${folder}`;
  return async (images) => {
    const output = await machine.output(`${command} ${images.join(' ')}`);
    return JSON.parse(output) as readonly CriPull[];
  };
}
