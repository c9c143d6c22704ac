import { describe, expect, it } from 'vitest';
import type { PinLedger } from '../../../../src/domain/state/release-record.ts';
import { PinKeeper } from '../../../../src/engine/keepers/state-keepers.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

function make() {
  const saved: PinLedger[] = [];
  const pinLedger = { load: () => undefined, save: async (ledger: PinLedger) => void saved.push(ledger) };
  return {
    saved,
    keeper: new PinKeeper(pinLedger, createRecordingLog()),
  };
}

describe('pin keeper', () => {
  it('gives up pins, one change at a time', async () => {
    const { keeper, saved } = make();
    const { signal } = new AbortController();
    await Promise.all([keeper.giveUp(['a@1'], signal), keeper.giveUp(['b@1'], signal)]);
    expect(saved.map(({ givenUp }) => givenUp)).toEqual([['a@1'], ['a@1', 'b@1']]);
  });

  it('gives up no pin for a caller that aborted before its turn', async () => {
    const { keeper, saved } = make();
    await expect(keeper.giveUp(['a@1'], AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
    expect(saved).toEqual([]);
    expect(keeper.ledger()).toBeUndefined();
  });
});
