/**
 * What needs permission, by the last part of the polkit action id. `systemd/io.stickpin1.policy`
 * declares the same actions.
 */
export const ACTIONS = {
  approve: 'approve a bundle',
  reject: 'reject a bundle',
  activate: 'activate a release, or go back to another one',
  unpin: 'give up a release or unclaimed pins',
  load: 'load a medium, or stop and resume preloads',
  trust: 'change which keys are trusted',
} as const;

/** What needs permission. */
export type Action = keyof typeof ACTIONS;
