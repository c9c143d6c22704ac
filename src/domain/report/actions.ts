/** What a person does first. `none`: nothing. */
export const PERSON_ACTIONS = ['leave-in', 'remove', 'plug-in', 'call-support', 'wait', 'none'] as const;

export interface ActionWords {
  readonly action: (typeof PERSON_ACTIONS)[number];
  readonly words: string;
  /** A sentence after the first one. */
  readonly after?: string;
}

/** What a line begins with. */
export const ACTIONS = {
  'leave-in': { action: 'leave-in', words: 'LEAVE THE STICK IN' },
  remove: { action: 'remove', words: 'REMOVE THE STICK' },
  'plug-in': { action: 'plug-in', words: 'PLUG IN THE STICK' },
  'plug-in-again': { action: 'plug-in', words: 'PLUG IN THE STICK AGAIN' },
  'plug-in-other': { action: 'plug-in', words: 'PLUG IN ANOTHER STICK' },
  'call-support': { action: 'call-support', words: 'CALL SUPPORT' },
  wait: { action: 'wait', words: 'WAIT' },
  'done-remove': { action: 'remove', words: 'DONE', after: 'Remove the stick.' },
  done: { action: 'none', words: 'DONE' },
  idle: { action: 'none', words: 'IDLE' },
} as const satisfies Readonly<Record<string, ActionWords>>;

export type Does = keyof typeof ACTIONS;

/** Whether it ends only when a person does something. */
export function isForPerson(does: Does): boolean {
  const { action } = ACTIONS[does];
  return action === 'plug-in' || action === 'call-support';
}
