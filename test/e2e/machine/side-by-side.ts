/**
 * How many machines run at a time, each for a test file of its own: `STICKPIN_TEST_MACHINES`,
 * default 1.
 */
export const machinesAtATime = Number(process.env.STICKPIN_TEST_MACHINES ?? 1);

/**
 * Processors of a machine: one alone can use two of the host, machines side by side keep one each
 * busy.
 */
export const processorsPerMachine = machinesAtATime > 1 ? 1 : 2;
