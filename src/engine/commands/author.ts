import type { EventRecorder } from '../reporting/event-recorder.ts';

/** Who gave a command, for the history: `uid 1000: activate`. Absent when nobody knows. */
export interface Author {
  readonly by?: string;
}

/** The member `by` of an event. */
export function authorOf({ by }: Author): Author {
  return by === undefined ? {} : { by };
}

/** A recorder whose events are by this author. */
export function recorderBy(by: string, recorder: EventRecorder): EventRecorder {
  return {
    ...recorder,
    row: (event) => recorder.row({ by, ...event }),
    tell: (event) => recorder.tell({ by, ...event }),
  };
}
