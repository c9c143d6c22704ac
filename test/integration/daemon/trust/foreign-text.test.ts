import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeSampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { makeNotice } from '../../../support/bundles/signed-payload.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

/**
 * A bidirectional override, a zero-width space, a line separator, a terminal's escape and its 8-bit
 * form, and a line end.
 */
const HOSTILE = 'a\u202eb\u200bc\u2028d\u001b[2Je\u009b2J\nf';
const FORBIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

let node: DaemonHarness;
const dir = folderForEach();

/** Every text of a document. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

it('takes control and format characters out of key names, file names and texts of a payload', async () => {
  const key = { ...sampleKey(), name: HOSTILE };
  node = await createDaemonHarness({ keys: [key] });
  await node.start();
  const advisories = [{ version: '4.13.6', deadend: true, reason: 'a\u202eb\u200bc\u2028d' }];
  const notice = makeNotice(dir, { advisories }, [key]);
  const stranger = await makeSampleBundle({ dir, keys: [sampleKey('stranger')] });
  const hostile = join(dir, HOSTILE);
  renameSync(stranger.path, hostile);
  node.plug(notice.path, hostile);
  const report = await node.until(({ rejected, notices }) => rejected.length === 1 && notices.length === 1);
  expect(report.trust.keys.map(({ name }) => name)).toEqual(['abc d [2Je 2J f']);
  expect(report.notices[0]?.signedBy).toEqual(['abc d [2Je 2J f']);
  expect(report.notices[0]?.advisories[0]?.reason).toBe('abc d');
  expect(report.rejected[0]?.path).toContain('abc d [2Je 2J f');
  const history = node.history();
  for (const text of [...textsIn(report), ...textsIn(history), ...node.statuses]) expect(text).not.toMatch(FORBIDDEN);
});
