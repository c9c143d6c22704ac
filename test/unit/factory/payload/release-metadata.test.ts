import { describe, expect, it } from 'vitest';
import { isInRange } from '../../../../src/domain/model/version.ts';
import { formerReleases, parseReleaseMetadata } from '../../../../src/factory/payload/release-metadata.ts';

const RELEASE = 'quay.io/ocp/release:4.18.3';
const bundle = { version: '4.18.3' };
const rangeOf = (previous: readonly string[], more = {}) =>
  formerReleases({ version: '4.18.3', previous }, { ...bundle, ...more }, RELEASE);
const parse = (value: unknown) => parseReleaseMetadata(Buffer.from(JSON.stringify(value)), RELEASE);

describe('parseReleaseMetadata', () => {
  const kind = 'cincinnati-metadata-v0';

  it('takes version and previous, and lets other members be', () => {
    expect(parse({ kind, version: '4.18.3', previous: ['4.18.2'], next: ['4.18.4'], metadata: { url: 'x' } })).toEqual({
      version: '4.18.3',
      previous: ['4.18.2'],
    });
  });

  it.each([[{ kind }], [{ kind, version: null, previous: null }]])('finds nothing in %j', (value) => {
    expect(parse(value)).toBeUndefined();
  });

  it.each([
    [{ kind: 'other' }, "kind: must be 'cincinnati-metadata-v0'"],
    [{ kind, previous: [4] }, 'previous.0: must be a version'],
    [{ kind, version: 4 }, 'version: must be a version'],
  ])('refuses %j', (value, why) => {
    expect(() => parse(value)).toThrow(`release-manifests/release-metadata of ${RELEASE}: ${why}`);
  });
});

describe('formerReleases', () => {
  it('makes one part of patch releases that follow each other, the latest first', () => {
    const previous = ['4.18.0-rc.1', '4.17.9', '4.17.10', '4.17.11', '4.18.2', '4.17.13', '4.18.1', '4.18.1'];
    expect(rangeOf(previous)).toEqual({
      from: '>=4.18.1 <=4.18.2 || 4.17.13 || >=4.17.9 <=4.17.11 || 4.18.0-rc.1',
      notes: [],
    });
  });

  it('takes in what is named, and nothing else', () => {
    const previous = ['4.17.9', '4.17.11', '4.18.0-rc.1', '4.18.0'];
    const { from = '' } = rangeOf(previous);
    for (const version of previous) expect(isInRange(version, from), version).toBe(true);
    for (const version of ['4.17.8', '4.17.10', '4.17.12', '4.18.0-rc.2', '4.18.1', '4.14.0']) {
      expect(isInRange(version, from), version).toBe(false);
    }
  });

  it.each([
    [[], 'names no version that may update to it'],
    [['4.18.2-rev1'], 'names only versions that do not fit into the bundle'],
  ])('sets no range for %j, and says so', (previous, why) => {
    const note = `${RELEASE} ${why}: nodes update to it from any version; --from gives a range`;
    expect(rangeOf(previous)).toEqual({ from: undefined, notes: [note] });
  });

  it.each([
    ['semver', 1024],
    ['three-tag', 512],
  ])('keeps the latest versions that fit into a range of the scheme %s', (versionScheme, length) => {
    const previous = Array.from({ length: 300 }, (_, at) => `4.17.${at * 2}`);
    const { from = '', notes } = rangeOf([...previous, '4.18.0-rc.1'], { versionScheme });
    expect(from.length).toBeLessThanOrEqual(length);
    expect(from.length).toBeGreaterThan(length - 12);
    expect(from).toMatch(/^4\.17\.598 \|\| 4\.17\.596 /);
    const left = 301 - from.split('||').length;
    expect(notes).toEqual([expect.stringMatching(`^${left} versions that ${RELEASE} names as previous do not fit`)]);
  });

  it('counts what is no version among those that are left out', () => {
    expect(rangeOf(['4.18.2', 'latest']).notes).toEqual([expect.stringContaining('1 version that')]);
  });

  it('refuses another version than the bundle has', () => {
    expect(() => formerReleases({ version: '4.18.2', previous: [] }, bundle, RELEASE)).toThrow(
      `version: ${RELEASE} is version 4.18.2, and --version says 4.18.3; give --version 4.18.2, or --without-previous`,
    );
  });
});
