import { expect, it } from 'vitest';
import { FailureLog } from '../../../../src/engine/reporting/event-recorder.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

function logged(play: (failures: FailureLog) => void): readonly string[] {
  const log = createRecordingLog();
  play(new FailureLog(log));
  return log.lines.map(({ level, message }) => `${level}: ${message}`);
}

const full = new Error('the disk is full');

it('logs a failure that repeats only once', () => {
  expect(
    logged((failures) => {
      failures.failed(full);
      failures.failed(full);
    }),
  ).toEqual(['warn: the disk is full. It is retried automatically']);
});

it('logs a failure with another reason', () => {
  expect(
    logged((failures) => {
      failures.failed(full);
      failures.failed(new Error('the disk is read-only'));
      failures.failed(full);
    }),
  ).toHaveLength(3);
});

it('logs the same failure again after a success', () => {
  expect(
    logged((failures) => {
      failures.failed(full);
      failures.succeeded();
      failures.failed(full);
    }),
  ).toHaveLength(2);
});
