import { describe, expect, it } from 'vitest';
import { content } from '../../../../../src/domain/activation/release-gates.ts';
import { holdMessage } from '../../../../../src/domain/report/hold-text.ts';
import { type ContentChecks, NO_CHECKS } from '../../../../../src/domain/state/checks.ts';
import { NOON, stored, verified } from '../../../../support/daemon/scenario.ts';

const bundle = stored(verified(), { readyAt: NOON });
const [etcd = '', api = ''] = bundle.contents.images.map(({ reference }) => reference);
const broken = { kind: 'broken', faults: [{ kind: 'records', what: 'a file is truncated' }] } as const;
const foundAfter = (brokenSince: number, ...references: string[]): ContentChecks => ({
  ...NO_CHECKS,
  isDue: true,
  endedAt: NOON,
  results: new Map(references.map((reference) => [reference, { at: NOON, content: broken, brokenSince }])),
});
const clauseOf = (verdict: ReturnType<typeof content>) =>
  verdict.kind === 'hold' ? holdMessage(verdict.hold) : undefined;

describe('the gate of the content of images', () => {
  it('lets a release pass where nothing is checked, no check is due, and all that was found is whole', () => {
    expect(content({ bundle, contentChecks: undefined })).toEqual({ kind: 'pass' });
    expect(content({ bundle, contentChecks: NO_CHECKS })).toEqual({ kind: 'pass' });
    expect(content({ bundle, contentChecks: foundAfter(NOON) })).toEqual({ kind: 'pass' });
    expect(content({ bundle, contentChecks: foundAfter(NOON, 'quay.io/of/others@sha256:1') })).toEqual({
      kind: 'pass',
    });
  });

  it('delays every release until the check after an unclean boot has ended, even one that was asked for', () => {
    const contentChecks = { ...NO_CHECKS, isDue: true, isAwaited: true };
    const verdict = content({ bundle: { ...bundle, activationRequestedAt: NOON }, contentChecks });
    expect(verdict).toEqual({
      kind: 'hold',
      hold: { code: 'engine/content-unchecked', data: {}, releasedBy: 'event', keepsDue: true },
    });
    expect(clauseOf(verdict)).toBe('its images are checked first');
  });

  it('holds a release with damaged images, and names the first', () => {
    const one = content({ bundle, contentChecks: foundAfter(NOON, api) });
    expect(one).toEqual({
      kind: 'hold',
      hold: { code: 'engine/content-damaged', data: { image: api, more: 0 }, releasedBy: 'event' },
    });
    expect(clauseOf(one)).toBe(`its image ${api} is damaged on this node. Plug in its stick, and it is loaded again`);
    expect(clauseOf(content({ bundle, contentChecks: foundAfter(NOON, etcd, api) }))).toBe(
      `2 of its images are damaged on this node, among them ${etcd}. Plug in its stick, and they are loaded again`,
    );
  });

  it('delays a release whose damaged image was pulled again and not checked since', () => {
    const again = (reference: string) => content({ bundle, contentChecks: { ...NO_CHECKS, healed: [reference] } });
    expect(again(api)).toMatchObject({ kind: 'hold', hold: { code: 'engine/content-unchecked', keepsDue: true } });
    expect(again('quay.io/of/others@sha256:1')).toEqual({ kind: 'pass' });
  });

  it('lets a release pass that was asked for after the damage was found, not before, whatever the clock says', () => {
    const asked = { ...bundle, activationRequestedAt: 7 };
    expect(content({ bundle: asked, contentChecks: foundAfter(6, etcd) })).toEqual({ kind: 'pass' });
    expect(content({ bundle: asked, contentChecks: foundAfter(7, etcd) })).toMatchObject({ kind: 'hold' });
  });
});
