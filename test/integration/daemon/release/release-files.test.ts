import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { installRole } from '../../../support/bundles/role-file.ts';
import { sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { makeNotice } from '../../../support/bundles/signed-payload.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

let node: DaemonHarness;
const dir = folderForEach();
beforeEach(async () => {
  node = await createDaemonHarness();
  await node.start();
});

async function bundleWithNotes() {
  const path = join(dir, 'notes.txt');
  writeFileSync(path, 'read me first');
  const attachments = [{ path, name: 'notes.txt', mediaType: 'text/plain' }];
  return node.make({ attachments });
}
const folder = () => join(node.base, 'state/releases/ocp/4.13.7');

it('installs attached files when the release is ready, and again when they are lost, without the stick', async () => {
  await node.load((await bundleWithNotes()).path);
  const installed = () => node.log.kinds().filter((kind) => kind === 'filesInstalled');
  await eventually(() => expect(readFileSync(join(folder(), 'notes.txt'), 'utf8')).toBe('read me first'));
  await eventually(() => expect(installed()).toHaveLength(1));
  node.unplug();
  rmSync(folder(), { recursive: true });
  node.engine.kick();
  await eventually(() => expect(readFileSync(join(folder(), 'notes.txt'), 'utf8')).toBe('read me first'));
  await eventually(() => expect(installed()).toHaveLength(2));
});

it('keeps the files of two streams apart whose names and versions join to the same text', async () => {
  const path = join(dir, 'notes.txt');
  writeFileSync(path, 'of ocp-4');
  const attachments = [{ path, name: 'notes.txt', mediaType: 'text/plain' }];
  const one = await node.make({ attachments, name: 'ocp-4', version: '1' });
  writeFileSync(path, 'of ocp');
  const other = await node.make({ dir: join(dir, 'b'), attachments, name: 'ocp', version: '4-1' });
  // Both are called ocp-4-1-<arch>, too.
  renameSync(other.path, `${other.path}-b`);
  node.plug(one.path, `${other.path}-b`);
  const notes = (at: string) => readFileSync(join(node.base, 'state/releases', at, 'notes.txt'), 'utf8');
  await eventually(() => expect([notes('ocp-4/1'), notes('ocp/4-1')]).toEqual(['of ocp-4', 'of ocp']), 60_000);
});

it('keeps the files of a release whose name and version a bundle of a role without images has too', async () => {
  const advisor = sampleKey('advisor');
  installRole(node.keysFolder, 'advisor', { keys: [advisor], streams: ['ocp'], repositories: [] });
  await node.load((await bundleWithNotes()).path);
  await eventually(() => expect(existsSync(folder())).toBe(true));
  node.unplug();
  const bytes = Buffer.from('of the advisor');
  const notes = { name: 'notes.txt', mediaType: 'text/plain', digest: digestOf(bytes), size: bytes.length };
  const advisories = [{ version: '4.13.6', deadend: true as const, reason: 'lost disks' }];
  const over = { version: '4.13.7', sequence: 200, attachments: [notes], advisories };
  const notice = makeNotice(join(dir, 'notice'), over, [advisor]);
  writeFileSync(join(notice.path, 'blobs/sha256', hexOf(notes.digest)), bytes);
  node.plug(notice.path);
  await node.until(({ notices }) => notices.length === 1);
  const own = `${folder()}@${hexOf(notice.bundleId).slice(0, 16)}`;
  await eventually(() => expect(readFileSync(join(own, 'notes.txt'), 'utf8')).toBe('of the advisor'));
  expect(readFileSync(join(folder(), 'notes.txt'), 'utf8')).toBe('read me first');
});

it('names a damaged file, and the release still becomes ready', async () => {
  const { path, payload } = await bundleWithNotes();
  const [notes] = payload.attachments ?? [];
  if (notes === undefined) throw new Error('no attachment');
  writeFileSync(join(path, 'blobs/sha256', hexOf(notes.digest)), 'READ ME FIRST');
  await node.load(path);
  await eventually(() => {
    const told = node.log.lines.filter(({ fields }) => fields.messageId === messageIds.filesNotLaid);
    expect(told.map(({ message }) => message).join('\n')).toMatch(
      /not installed: attachment notes.txt should have digest/,
    );
  });
  expect(existsSync(folder())).toBe(false);
  expect(readdirSync(join(node.base, 'state/releases'))).toEqual([]);
});

it('removes the kept blobs of attached files when the release is retired, and keeps the manifests', async () => {
  const { path, payload, contents } = await bundleWithNotes();
  const notes = payload.attachments?.[0]?.digest ?? expect.unreachable();
  const manifest = contents.images[0]?.digest ?? expect.unreachable();
  const blob = (digest: Digest) => existsSync(join(node.base, 'state/blobs/sha256', hexOf(digest)));
  await node.load(path);
  await eventually(() => expect(existsSync(folder())).toBe(true));
  expect([blob(notes), blob(manifest)]).toEqual([true, true]);
  const { signal } = new AbortController();
  await node.engine.commands.unpin({ bundle: 'ocp@4.13.7', removeImages: false, force: true }, signal);
  await node.until(({ bundles }) => bundles[0]?.phase === 'retired');
  await eventually(() => expect([existsSync(folder()), blob(notes), blob(manifest)]).toEqual([false, false, true]));
});

it('installs a large file without a second copy, and again without the stick', async () => {
  const path = join(dir, 'k3s');
  writeFileSync(path, 'ELF');
  truncateSync(path, 20 * 1024 * 1024);
  const attachments = [{ path, name: 'k3s', mediaType: 'application/octet-stream' }];
  const made = await node.make({ attachments });
  const digest = made.payload.attachments?.[0]?.digest ?? expect.unreachable();
  const blob = join(node.base, 'state/blobs/sha256', hexOf(digest));
  await node.load(made.path);
  node.unplug();
  const installed = join(folder(), 'k3s');
  await eventually(() => expect(statSync(installed).ino).toBe(statSync(blob).ino));
  rmSync(folder(), { recursive: true });
  node.engine.kick();
  await eventually(() => expect(statSync(installed).ino).toBe(statSync(blob).ino));
});
