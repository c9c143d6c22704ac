import { describe, expect, it } from 'vitest';
import { parseStatusAnnotation } from '../../../../src/domain/fleet/node-status.ts';

const RELEASE = { name: 'ocp', version: '4.13.7+1', bundle: '0123456789abcdef', phase: 'preloading', percent: 40 };
const text = (document: unknown) => JSON.stringify(document);

describe('the status that a node tells the others', () => {
  it('is read, and members that are not known are left out', () => {
    const written = { version: 1, releases: [{ ...RELEASE, mood: 'good' }], more: 2, later: true };
    expect(parseStatusAnnotation(text(written))).toEqual({ version: 1, releases: [RELEASE], more: 2 });
  });

  it.each([
    ['no JSON', '{'],
    ['a list', '[]'],
    ['another version', text({ version: 2, releases: [] })],
    ['a phase that does not exist', text({ version: 1, releases: [{ ...RELEASE, phase: 'happy' }] })],
    ['a bundle that is no hex', text({ version: 1, releases: [{ ...RELEASE, bundle: 'z'.repeat(16) }] })],
    ['a percentage above 100', text({ version: 1, releases: [{ ...RELEASE, percent: 101 }] })],
    ['a name without a character', text({ version: 1, releases: [{ ...RELEASE, name: '' }] })],
    ['more text than a node writes', text({ version: 1, releases: [], note: 'x'.repeat(10_000) })],
  ])('is undefined for %s', (_what, annotation) => {
    expect(parseStatusAnnotation(annotation)).toBeUndefined();
  });
});
