import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { reviveBundle } from '../../../src/app/daemon/signed-bundles.ts';
import { reasonOf } from '../../../src/platform/app-error.ts';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { type Log, silentLog } from '../../../src/platform/log.ts';
import type { ReleaseFile, ReleaseFiles } from '../../../src/ports/blobs.ts';
import { writeDurably } from '../../../src/runtime/config/config-file.ts';
import { type OpenState, openState } from '../../../src/store/database/open-state.ts';
import { FileBlobs } from '../../../src/store/files/blobs/blob-store.ts';
import { type BootMarkFile, openBootMark } from '../../../src/store/files/boot-mark.ts';
import { openRegistryToken } from '../../../src/store/files/registry-token.ts';
import { createReleaseFiles } from '../../../src/store/files/release-files.ts';
import { createSignedFiles, type SignedFiles } from '../../../src/store/files/signed-files.ts';
import { digestOf, verified } from '../daemon/scenario.ts';

const signal = NEVER_ABORTED;
const BOOT = 'the boot of the story';
const event = (kind: string) => ({ at: 1, kind, message: kind });
const document = (sequence: number) => Buffer.from(`manifest ${sequence} ${'x'.repeat(9_000)}`);
const attachment = (sequence: number) => Buffer.from(`chart ${sequence}`);
const folderOf = (sequence: number) => `ocp/4.13.${sequence}`;
const release = (sequence: number) =>
  verified({ version: `4.13.${sequence}`, sequence, images: { [`etcd-${sequence}`]: [`layer-${sequence}`] } });
const referencesOf = (sequence: number) => release(sequence).contents.images.map(({ reference }) => reference);

/** One step of the story: what is recorded, and what shows that it is. */
interface Step {
  readonly name: string;
  /** Says again what it has said when it is called again. */
  do(node: NodeFiles): Promise<void>;
  /** Throws, or returns false, while what was recorded is not there. */
  isThere(node: NodeFiles): boolean | Promise<boolean>;
  /** The step that may take it away again. */
  readonly endsWith?: string;
}

/** All that the daemon records in its state directory, each as the daemon does it. */
export class NodeFiles {
  readonly state: OpenState;
  readonly documents: FileBlobs;
  readonly signed: SignedFiles;
  readonly files: ReleaseFiles;
  readonly pinsFile: string;

  private constructor(
    readonly folder: string,
    /** What is said of the disk. */
    readonly log: Log,
    readonly token: string,
    readonly mark: BootMarkFile,
  ) {
    const path = join(folder, 'state.db');
    this.state = openState({ path, standbyDirectory: `${folder}-standby`, revive: reviveBundle, log, now: 0 });
    this.documents = new FileBlobs(join(folder, 'blobs'));
    this.signed = createSignedFiles(join(folder, 'blobs/bundles'));
    this.files = createReleaseFiles(join(folder, 'releases'));
    this.pinsFile = join(folder, 'crio/99-stickpin.conf');
  }

  static async open(folder: string, log: Log): Promise<NodeFiles> {
    const token = await openRegistryToken(join(folder, 'registry-token'), log);
    const mark = await openBootMark({ path: join(folder, 'running.json'), bootId: BOOT, now: 0, log }, signal);
    return new NodeFiles(folder, log, token, mark);
  }

  async record(change: () => void): Promise<void> {
    change();
    await this.state.store.mirror(signal);
  }

  /** In the order of an activation: the ledger, then the file. */
  async pin(sequences: readonly number[]): Promise<void> {
    const references = sequences.flatMap(referencesOf);
    await this.record(() => this.state.store.setDocument('pins', JSON.stringify(references)));
    await writeDurably({ path: this.pinsFile }, references.join('\n'));
  }

  isPinned(sequence: number): boolean {
    const ledger = this.state.store.document('pins') ?? '';
    const file = readFileSync(this.pinsFile, 'utf8');
    return referencesOf(sequence).every((reference) => ledger.includes(reference) && file.includes(reference));
  }

  floor(): number {
    return Number(this.state.store.document('floors') ?? 0);
  }

  find(sequence: number) {
    return this.state.store.load().bundles.find(({ bundleId }) => bundleId === release(sequence).bundleId);
  }

  /** Names of files that were set aside as damaged. */
  damaged(): readonly string[] {
    return readdirSync(this.folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.includes('.damaged-'));
  }
}

const attached = (sequence: number): ReleaseFile => ({
  name: 'chart.tgz',
  digest: digestOf(attachment(sequence).toString()),
  linkTo: async () => false,
  read: async function* () {
    yield attachment(sequence);
  },
});

/** From the documents to the activation. */
function stepsOf(sequence: number, endsWith: string): readonly Step[] {
  const { bundleId } = release(sequence);
  const digest = digestOf(document(sequence).toString());
  const steps: readonly Omit<Step, 'endsWith'>[] = [
    {
      name: `documents-${sequence}`,
      do: async ({ documents, signed }) => {
        await documents.put(digest, document(sequence), signal);
        await signed.put(bundleId, new Map([['envelope', document(sequence)]]));
      },
      isThere: async ({ documents, signed }) =>
        (await documents.sizeOf(digest, signal)) === document(sequence).length &&
        readFileSync(join(signed.folderOf(bundleId), 'envelope')).equals(document(sequence)),
    },
    {
      name: `adopted-${sequence}`,
      do: (node) => node.record(() => node.state.store.adopt(release(sequence), event('bundleVerified'))),
      isThere: (node) => node.find(sequence)?.contents.images.length === 1,
    },
    {
      name: `files-${sequence}`,
      do: ({ files }) => files.install(folderOf(sequence), bundleId, [attached(sequence)], signal),
      isThere: async ({ files }) =>
        (await files.list(signal)).get(folderOf(sequence)) === bundleId &&
        readFileSync(join(files.pathOf(folderOf(sequence)), 'chart.tgz')).equals(attachment(sequence)),
    },
    {
      name: `pinned-${sequence}`,
      do: (node) => node.pin(sequence === 1 ? [1] : [1, 2]),
      isThere: (node) => node.isPinned(sequence),
    },
    {
      name: `ready-${sequence}`,
      do: async ({ state: { store } }) => {
        for (const reference of referencesOf(sequence)) store.setPulledByUs(reference, true);
        store.change(bundleId, { readyAt: 1 }, event('bundleReady'));
        await store.settled(signal);
      },
      isThere: (node) => node.find(sequence)?.readyAt === 1,
    },
    {
      name: `floor-${sequence}`,
      do: (node) => node.record(() => node.state.store.setDocument('floors', `${sequence}`)),
      isThere: (node) => node.floor() >= sequence,
    },
    {
      name: `activated-${sequence}`,
      do: (node) => node.record(() => node.state.store.change(bundleId, { activatedAt: 2 }, event('bundleActivated'))),
      isThere: (node) => node.find(sequence)?.activatedAt === 2,
    },
  ];
  return steps.map((step) => (step.name.startsWith('floor') ? step : { ...step, endsWith }));
}

/** Two releases; then the first one goes. */
export const STORY: readonly Step[] = [
  ...stepsOf(1, 'unpinned-1'),
  ...stepsOf(2, 'never'),
  {
    name: 'revoked',
    do: (node) => node.record(() => node.state.store.setRevocationRecord({ folders: ['/keys.d'], revocations: [] })),
    isThere: ({ state }) => state.store.revocationRecord()?.folders[0] === '/keys.d',
  },
  {
    name: 'unpinned-1',
    do: (node) => node.pin([2]),
    isThere: (node) => node.isPinned(2) && !node.isPinned(1),
  },
  {
    name: 'forgotten-1',
    do: async (node) => {
      const { bundleId } = release(1);
      await node.record(() => node.state.store.forget(bundleId, undefined));
      await node.files.remove(folderOf(1), signal);
      await node.signed.remove(bundleId);
      await node.documents.remove(digestOf(document(1).toString()), signal);
    },
    // Each round removes files that no release has.
    isThere: (node) => node.find(1) === undefined,
  },
];

/** What a process of `record-story.ts` has said. */
export interface Told {
  readonly begun: readonly string[];
  readonly done: readonly string[];
  readonly token: string | undefined;
  /** Codes of what has failed. */
  readonly codes: readonly string[];
  readonly log: readonly string[];
}

export function toldIn(output: string): Told {
  const lines = [...output.matchAll(/^\{.*\}$/gm)].map(([line]) => JSON.parse(line) as Record<string, string>);
  const of = (key: string) => lines.flatMap((line) => line[key] ?? []);
  return { begun: of('begun'), done: of('done'), token: of('token').at(-1), codes: of('code'), log: of('log') };
}

/** Opens what a process has left, and says what is not as it has told. Empty: all is. */
export async function faultsOf(folder: string, { begun, done, token, log }: Told): Promise<readonly string[]> {
  const lines: string[] = [];
  const note = (_fields: object, message: string) => lines.push(message);
  const node = await NodeFiles.open(folder, { ...silentLog, warn: note, error: note });
  try {
    const { loss, mirror } = node.state;
    const wrong = [...lines, ...(loss === undefined ? [] : [loss.message]), ...mirror.unreadable(), ...node.damaged()];
    const isTokenStored = token !== undefined && !log.some((line) => line.includes('token'));
    if (isTokenStored && node.token !== token) wrong.push('another token');
    for (const { name, isThere, endsWith = '' } of STORY) {
      if (!done.includes(name) || begun.includes(endsWith)) continue;
      const isFound = await (async () => isThere(node))().catch((error: unknown) => reasonOf(error));
      if (isFound !== true) wrong.push(`${name} was told, and is not there: ${isFound}`);
    }
    return wrong;
  } finally {
    node.state.close();
  }
}
