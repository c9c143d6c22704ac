import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { messageIds } from '../../../src/platform/message-ids.ts';

const catalog = readFileSync(new URL('../../../systemd/stickpin.catalog', import.meta.url), 'utf8');
const entries = new Map(
  catalog
    .split(/^-- /m)
    .slice(1)
    .map((entry) => [entry.slice(0, 32), entry.slice(33)] as const),
);

describe('journal catalog', () => {
  it('explains each message, and no other', () => {
    expect([...entries.keys()].sort()).toEqual(Object.values(messageIds).sort());
  });

  it('has 128-bit ids, each once', () => {
    const ids = Object.values(messageIds);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
  });

  it('has no id that is never written', () => {
    const source = new URL('../../../src/', import.meta.url);
    const texts = readdirSync(source, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.endsWith('message-ids.ts'))
      .map((file) => readFileSync(new URL(file, source), 'utf8'));
    const isWritten = (kind: string) => texts.some((text) => new RegExp(`\\b${kind}\\b`).test(text));
    expect(Object.keys(messageIds).filter((kind) => !isWritten(kind))).toEqual([]);
  });

  /*
   * It sees names: `messageIds.KIND`, and 'KIND' in quotes, in the tests of test/unit and
   * test/integration. Not counted are this file, the tests of the event recorder, lines with
   * `.not.`, and `kind: 'KIND'`, which may be an event that the test makes by hand. It can't see
   * whether what a test expects comes from the daemon, nor whether the test runs on this machine.
   */
  it('has a test that expects each, as far as names tell', () => {
    const tests = new URL('../../', import.meta.url);
    const isCounted = (file: string) =>
      /^(unit|integration)\/.*\.test\.ts$/.test(file) && !/(^|\/)(catalog|event-recorder)\.test\.ts$/.test(file);
    const lines = readdirSync(tests, { recursive: true, encoding: 'utf8' })
      .filter(isCounted)
      .flatMap((file) => readFileSync(new URL(file, tests), 'utf8').split('\n'))
      .filter((line) => !line.includes('.not.'));
    const named = new Set(
      lines.flatMap((line) =>
        [...line.matchAll(/messageIds\.(\w+)|(?<!kind: )'(\w+)'/g)].map(([, id, kind]) => id ?? kind),
      ),
    );
    expect(Object.keys(messageIds).filter((kind) => !named.has(kind))).toEqual([]);
  });

  it('names the short code where each line of the kind has one', () => {
    const kinds = Object.entries(messageIds).filter(([, id]) => entries.get(id)?.includes('@STICKPIN_CODE@'));
    expect(kinds.map(([kind]) => kind).sort()).toEqual([
      'approvalAwaited',
      'bundleHeld',
      'bundleRejected',
      'mediumFailed',
      'noSpace',
      'trustWithdrawn',
    ]);
    for (const [, id] of kinds) expect(entries.get(id)).toContain("'stickpin explain @STICKPIN_CODE@'");
  });

  it.each([...entries])('says what %s is, what it means and what to do', (_id, text) => {
    expect(text).toMatch(/^Subject: .{8,}\nDefined-By: stickpin\nSupport: \S+\n\n\S/);
    expect(text).toMatch(/\n\nWhat to do: \S/);
  });
});
