import fc from 'fast-check';
import { parse } from 'toml';
import { describe, expect, it } from 'vitest';
import { parsePinsDropIn, recoverPins, renderPinsDropIn } from '../../../../src/runtime/crio/pins-drop-in.ts';

const ETCD = `quay.io/coreos/etcd@sha256:${'a'.repeat(64)}`;
const DNS = `quay.io/coreos/dns@sha256:${'b'.repeat(64)}`;

describe('renderPinsDropIn', () => {
  it('holds our pins and those of others, with their files', () => {
    const text = renderPinsDropIn({
      ours: [ETCD, DNS, ETCD],
      foreign: [
        { pin: 'registry.k8s.io/pause*', file: '/etc/crio/crio.conf.d/50-pause.conf' },
        { pin: ETCD, file: '/etc/crio/crio.conf.d/50-pause.conf' },
      ],
    });
    expect(
      text,
    ).toBe(`# Written by stickpin. Don't edit: it is written anew whenever a bundle comes or goes, or the configuration of CRI-O changes.
# CRI-O takes pinned_images from the last file that sets it, so pins set elsewhere are repeated here. A file sorted behind this
# one must not set pinned_images.

[crio.image]
pinned_images = [
  # from bundles
  "${DNS}",
  "${ETCD}",
  # set in "/etc/crio/crio.conf.d/50-pause.conf"
  "registry.k8s.io/pause*",
]
`);
  });

  it('sets no list without our pins, so that the list of other files stays in effect', () => {
    const text = renderPinsDropIn({ ours: [], foreign: [{ pin: 'a', file: '/etc/crio/crio.conf' }] });
    expect(parse(text)).toEqual({});
  });
});

describe('recoverPins', () => {
  it('finds our whole pins in a file that was cut off or damaged, and no other ones', () => {
    const text = renderPinsDropIn({ ours: [ETCD, DNS], foreign: [{ pin: `${DNS}0`, file: '/etc/crio/crio.conf' }] });
    expect(recoverPins(text.slice(0, -6))).toEqual([DNS, ETCD]);
    expect(recoverPins(text.slice(0, text.indexOf(ETCD) + ETCD.length))).toEqual([DNS]);
    expect(recoverPins(text.replace('# from bundles', '#'))).toEqual([DNS, ETCD]);
  });
});

describe('parsePinsDropIn', () => {
  it('reads the empty file of tmpfiles.d as no pins', () => {
    expect(parsePinsDropIn('')).toEqual({ ours: [], foreign: [] });
  });

  it.each([
    ['a file of others', '[crio.image]\npinned_images = ["a"]\n'],
    ['half a file', renderPinsDropIn({ ours: ['a', 'b'], foreign: [] }).slice(0, -6)],
    ['an edited file', renderPinsDropIn({ ours: ['a', 'b'], foreign: [] }).replace('"a",', '"a", # mine')],
  ])('refuses %s', (_title, text) => {
    expect(parsePinsDropIn(text)).toBeUndefined();
  });

  const anyText = fc.string({ unit: 'binary', minLength: 1 });
  it('reads back rendered pins with any names, and a TOML parser reads the same list', () => {
    const ours = fc.uniqueArray(anyText, { minLength: 1 }).map((list) => list.sort());
    const foreign = fc.uniqueArray(fc.record({ pin: anyText, file: anyText }), { selector: ({ pin }) => pin });
    fc.assert(
      fc.property(ours, foreign, (own, others) => {
        const rest = others.filter(({ pin }) => !own.includes(pin));
        const text = renderPinsDropIn({ ours: own, foreign: others });
        expect(parsePinsDropIn(text)).toEqual({ ours: own, foreign: rest });
        expect(parse(text).crio.image.pinned_images).toEqual([...own, ...rest.map(({ pin }) => pin)]);
      }),
    );
  });
});
