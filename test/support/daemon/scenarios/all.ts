import { MENDING } from './mending.ts';
import { PROMOTION } from './promotion.ts';
import { RESTARTS } from './restarts.ts';
import { RETENTION } from './retention.ts';
import type { Scenario } from './table.ts';
import { WAY_BACK } from './way-back.ts';

/** Every table, by topic. */
export const SCENARIOS: readonly { readonly topic: string; readonly scenarios: readonly Scenario[] }[] = [
  { topic: 'from ready to proven', scenarios: PROMOTION },
  { topic: 'restarts and reboots', scenarios: RESTARTS },
  { topic: 'the way back', scenarios: WAY_BACK },
  { topic: 'what is kept and what goes', scenarios: RETENTION },
  { topic: 'what is lost and mended', scenarios: MENDING },
];
