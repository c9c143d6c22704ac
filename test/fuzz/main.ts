import { targets } from './targets.ts';

/** The fuzzer calls it with each input. `STICKPIN_FUZZ_TARGET` names the target. */
export const fuzz = targets.get(process.env.STICKPIN_FUZZ_TARGET ?? '');
