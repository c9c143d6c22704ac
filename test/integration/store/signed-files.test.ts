import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { digestFromHex } from '../../../src/domain/model/digest.ts';
import { createSignedFiles } from '../../../src/store/files/signed-files.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';

const BUNDLE = digestFromHex('a'.repeat(64));
const OTHER = digestFromHex('b'.repeat(64));
const FILES = new Map([['bundle.dsse.json', Buffer.from('{}')]]);

it('the files of one bundle, which two media bring at once, are there once and whole', async () => {
  const folder = temporaryFolder();
  const files = createSignedFiles(folder);
  const listed = files.list();
  await Promise.all([files.put(BUNDLE, FILES), files.put(OTHER, FILES), files.put(BUNDLE, FILES), files.list()]);
  expect([...(await listed)].sort()).toEqual([BUNDLE, OTHER]);
  expect(readdirSync(folder).sort()).toEqual(['a'.repeat(64), 'b'.repeat(64)]);
  expect(readFileSync(join(files.folderOf(BUNDLE), 'bundle.dsse.json'), 'utf8')).toBe('{}');
  await Promise.all([files.remove(BUNDLE), files.put(BUNDLE, FILES), files.remove(OTHER)]);
  expect([...(await files.list())]).toEqual([BUNDLE]);
});
