import { describe, expect, it } from 'vitest';
import { checkWindows } from '../../../src/doctor/checks.ts';
import type { Settings } from '../../../src/domain/settings/settings.ts';
import { findingsOf } from '../../support/examined-node.ts';

const WINDOW = { days: [5], startMinute: 60, lengthMinutes: 60 };

const found = (update: Partial<Settings['update']>) => findingsOf(checkWindows, { settings: { update } });

describe('the check of windows', () => {
  it.each([
    ['no windows are set', { strategy: 'immediate', windows: [] } as const],
    ['windows are waited for', { strategy: 'window', windows: [WINDOW] } as const],
  ])('reports nothing where %s', async (_, update) => {
    expect(await found(update)).toEqual([]);
  });

  it.each(['immediate', 'manual'] as const)('warns of windows that have no effect: %s', async (strategy) => {
    expect(await found({ strategy, windows: [WINDOW] })).toEqual([
      {
        subject: 'windows',
        verdict: 'warning',
        message: `update.windows is set and update.strategy is "${strategy}", so that no activation waits for a window`,
        remedy: 'set update.strategy = "window", or remove update.windows',
      },
    ]);
  });
});
