import type { Effect } from '../domain/effect.ts';
import type { News } from '../domain/event.ts';
import type { Reason } from '../domain/medium.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import type { EventRow, StateStore } from './ports.ts';

/** Tells what happened, to the journal and to the history. */
export interface Narrator {
  /** Logs and records. */
  tell(news: News): void;
  /** The history row of `news`, for a transaction that records more than that; log it afterwards with {@link Narrator.log}. */
  row(news: News): EventRow;
  log(news: News): void;
  /** An effect failed. The same failure is told once until another one comes or a minute has passed; the reason is returned. */
  tellFailure(effect: Effect, error: unknown): Reason;
}

/** What a narrator writes to. */
export interface NarratorDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: StateStore;
}

const REPEAT_MS = 60_000;

/** A narrator with nothing told yet. */
export function createNarrator({ clock, log, store }: NarratorDependencies): Narrator {
  let lastFailure = { message: '', at: Number.NEGATIVE_INFINITY };
  const row = ({ kind, message, bundleId, medium }: News): EventRow => ({
    at: clock.now(),
    kind,
    message,
    ...(bundleId !== undefined && { bundleId }),
    ...(medium !== undefined && { medium }),
  });
  const write = ({ kind, level, message, bundleId, medium, digest }: News) => {
    const fields = {
      messageId: messageIds[kind],
      ...(bundleId !== undefined && { bundleId }),
      ...(medium !== undefined && { medium }),
      ...(digest !== undefined && { digest }),
    };
    log[level](fields, message);
  };
  const tell = (news: News) => {
    store.append(row(news));
    write(news);
  };
  return {
    row,
    log: write,
    tell,
    tellFailure: (effect, error) => {
      const message = `${doing(effect)} failed: ${reasonOf(error)}`;
      const reason = { code: error instanceof AppError ? error.code : 'engine/effect', message };
      const now = clock.monotonic();
      if (message === lastFailure.message && now - lastFailure.at < REPEAT_MS) return reason;
      lastFailure = { message, at: now };
      write({ kind: 'roundFailed', level: 'warn', message });
      return reason;
    },
  };
}

function doing(effect: Effect): string {
  switch (effect.kind) {
    case 'mount-medium':
      return `Mounting ${effect.mediumId}`;
    case 'read-medium':
      return `Reading ${effect.mediumId}`;
    case 'adopt-bundle':
      return `Taking up bundle ${effect.bundleId}`;
    case 'apply-pins':
      return 'Rendering the pins';
    case 'apply-mirrors':
      return 'Rendering the mirrors';
    case 'record-ready':
      return 'Recording a bundle as ready';
    case 'start':
      return `Starting a ${effect.task.kind}`;
  }
}
