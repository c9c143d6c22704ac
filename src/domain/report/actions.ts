/** The first action of a person. */
export const PERSON_ACTIONS = ['leave-in', 'remove', 'plug-in', 'call-support', 'wait', 'none'] as const;

/** The state of a node in one word. */
export const VERDICTS = ['good', 'waits-for-admin', 'works', 'needs-person', 'failed'] as const;

export type Verdict = (typeof VERDICTS)[number];

export interface ActionWords {
  readonly action: (typeof PERSON_ACTIONS)[number];
  readonly words: string;
  readonly asks: string;
  /** A sentence that follows the first one. */
  readonly after?: string;
  /** A sentence names the sticks that may be removed. */
  readonly removes?: true;
  /** The action of a person after that. */
  readonly afterwards?: (typeof PERSON_ACTIONS)[number];
}

/** The first words of a line, and the action of a person. */
export const ACTIONS = {
  'leave-in': { action: 'leave-in', words: 'LEAVE THE STICK IN', asks: 'Wait.' },
  remove: { action: 'remove', words: 'REMOVE THE STICK', asks: 'Take it to the next node.', removes: true },
  'remove-call': {
    action: 'remove',
    words: 'REMOVE THE STICK',
    after: 'Call support.',
    asks: 'Take it to the next node.',
    removes: true,
    afterwards: 'call-support',
  },
  'remove-wait': {
    action: 'remove',
    words: 'REMOVE THE STICK',
    asks: 'Take it to the next node.',
    removes: true,
    afterwards: 'wait',
  },
  'plug-in': { action: 'plug-in', words: 'PLUG IN THE STICK', asks: 'Plug in the stick of the release.' },
  'plug-in-again': { action: 'plug-in', words: 'PLUG IN THE STICK AGAIN', asks: 'Plug the same stick in again.' },
  'plug-in-other': {
    action: 'plug-in',
    words: 'PLUG IN ANOTHER STICK',
    asks: 'Mark it. Plug in a good one.',
  },
  'call-support': {
    action: 'call-support',
    words: 'CALL SUPPORT',
    asks: 'Leave the stick alone. Read out the code.',
  },
  wait: { action: 'wait', words: 'WAIT', asks: 'Wait.' },
  'done-remove': {
    action: 'remove',
    words: 'DONE',
    asks: 'Remove it. Take it to the next node.',
    removes: true,
  },
  'done-remove-admin': {
    action: 'remove',
    words: 'DONE',
    after: 'An administrator activates it.',
    asks: 'Remove it. Take it to the next node.',
    removes: true,
  },
  'done-admin': { action: 'none', words: 'DONE', after: 'An administrator activates it.', asks: 'Nothing.' },
  /** An administrator decided it, so nobody else is called. */
  decided: { action: 'none', words: 'IDLE', asks: 'Nothing, or plug in a stick.' },
  done: { action: 'none', words: 'DONE', asks: 'Nothing.' },
  idle: { action: 'none', words: 'IDLE', asks: 'Nothing, or plug in a stick.' },
} as const satisfies Readonly<Record<string, ActionWords>>;

export type Does = keyof typeof ACTIONS;

/** Whether support is called, at once or after the stick is removed. */
export function callsSupport(does: Does): boolean {
  const { action, afterwards = action }: ActionWords = ACTIONS[does];
  return afterwards === 'call-support';
}

/** Whether it ends only when a person acts. */
export function isForPerson(does: Does): boolean {
  const { action } = ACTIONS[does];
  return action === 'plug-in' || action === 'call-support';
}
