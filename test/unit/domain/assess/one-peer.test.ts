import { describe, expect, it } from 'vitest';
import type { Medium } from '../../../../src/domain/model/medium.ts';
import { doesOf } from '../../../../src/domain/report/status/bundle-lines.ts';
import { lastCarriersIn } from '../../../../src/domain/state/memory.ts';
import { found, judge, medium, observation, stored, verified } from '../../../support/daemon/scenario.ts';

const bundle = verified();
const [layer] = bundle.contents.layers;
const part = found(bundle, [{ digest: layer?.digest ?? bundle.bundleId, why: 'absent' }]);
const stick = medium('sdb1', [found(bundle)]);
const peer = (name: string): Medium => ({
  ...medium(name, [part]),
  mediumId: `peer:${name}`,
  peer: { isReady: true },
});
const NONE = lastCarriersIn([], new Map(), 0);

/** What a person does while these media are there, after a stick with it or not. */
function does(media: readonly Medium[], hadStick: boolean) {
  const before = hadStick ? lastCarriersIn([stick], NONE, 1) : NONE;
  const seen = observation({ media: [...media], lastCarriers: lastCarriersIn(media, before, 2) });
  const { first } = judge(seen, [stored(bundle)]);
  return first?.reason && [first.reason.code, doesOf(first, first.reason)];
}

describe('a release of which other nodes have a part', () => {
  it('needs its stick again where this node had it', () => {
    expect(does([peer('worker-2')], true)).toEqual(['bundle/blob-missing', 'plug-in-other']);
  });

  it('needs it where several nodes say that there is such a release', () => {
    expect(does([peer('worker-2'), peer('worker-3')], false)).toEqual(['bundle/blob-missing', 'plug-in-other']);
  });

  it('sends nobody for what one node alone says', () => {
    expect(does([peer('worker-2')], false)).toEqual(['bundle/blob-missing', 'wait']);
  });
});
