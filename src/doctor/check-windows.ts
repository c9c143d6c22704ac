import { findingsOn } from '../domain/model/reason.ts';
import type { Check, ExaminedNode } from './check.ts';

/** Whether windows that are set have an effect. A node without windows has no finding. */
export function checkWindows({ settings }: Pick<ExaminedNode, 'settings'>): readonly Check[] {
  const { windows, strategy } = settings.update;
  if (windows.length === 0 || strategy === 'window') return [];
  const { warning } = findingsOn('windows');
  const what = `update.windows is set and update.strategy is "${strategy}", so that no activation waits for a window`;
  const remedy = 'set update.strategy = "window", or remove update.windows';
  return [{ subject: 'windows', remedy, look: async () => [warning(what, remedy)] }];
}
