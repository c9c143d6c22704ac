import { endOf, LONGEST_PAUSE_MS, MOST_WHY, newPause, PAUSE_MS, type Pause } from '../../domain/fleet/pause.ts';
import { bundleTitle, STREAM_NAME } from '../../domain/model/bundle.ts';
import { isVersion } from '../../domain/model/version.ts';
import { timeText } from '../../domain/report/texts/short-texts.ts';
import { defined } from '../../platform/defined.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import { authorOf, type CommandContext, refuse } from './command-context.ts';

export const pauseCommands = { pauseRollOut, resumeRollOut };

/** Said on this node, with lifted ones: those travel until they would have ended. */
const MOST_OWN = 16;

interface PauseArgs {
  /** `ocp` or `ocp@4.13.7`. */
  readonly release: string;
  readonly why: string;
  /** 0: the default. */
  readonly seconds: number;
}

/**
 * @returns the effect, as a sentence
 * @throws AppError `engine/no-fleet`, `engine/no-release`, `engine/no-pause` (`reject`)
 */
function pauseRollOut(context: CommandContext, { release, why, seconds }: PauseArgs): string {
  const { clock, store, recorder } = context;
  const node = ownNode(context);
  const [, name = '', version] = /^([^@]+)(?:@(.+))?$/.exec(release) ?? [];
  if (!STREAM_NAME.test(name) || (version !== undefined && !isVersion(version))) {
    throw refuse(
      'engine/no-release',
      `${clip(oneLine(release), MOST_WHY)} names no release: write NAME or NAME@VERSION`,
    );
  }
  const reason = oneLine(why);
  if (reason === '' || reason.length > MOST_WHY) {
    throw refuse('engine/no-pause', `say in at most ${MOST_WHY} characters why the roll-out is paused`);
  }
  const { pauses = [] } = store.load();
  if (pauses.filter(({ from }) => from === undefined).length >= MOST_OWN) {
    throw refuse('engine/no-pause', `${MOST_OWN} pauses of this node last, with lifted ones: wait until one ends`);
  }
  const forMs = seconds <= 0 ? PAUSE_MS : Math.min(1_000 * seconds, LONGEST_PAUSE_MS);
  const pause = newPause(
    defined({ name, version, node, by: personOf(context), why: reason, atMs: clock.now(), forMs }),
  );
  const message = `The roll-out of ${titleOf(pause)} is paused until ${timeText(endOf(pause))}: ${reason}`;
  const event = { kind: 'rollOutPaused', level: 'info', message, ...authorOf(context) } as const;
  store.setPauses([pause, ...pauses.filter(({ id }) => id !== pause.id)], recorder.row(event));
  recorder.log(event);
  return `${message}. What has begun ends. 'stickpin fleet resume ${pause.id}' on any node ends the pause.`;
}

/** @throws AppError `engine/no-fleet`, `engine/no-pause` (`reject`) */
function resumeRollOut(context: CommandContext, { id }: { readonly id: string }): string {
  const { store, recorder } = context;
  const node = ownNode(context);
  const { pauses = [] } = store.load();
  const pause = pauses.find((one) => one.id === id);
  if (pause === undefined) {
    const lasting = pauses.filter(({ lifted }) => lifted === undefined).map((one) => one.id);
    const known = lasting.length === 0 ? 'none lasts' : `these last: ${lasting.join(', ')}`;
    throw refuse('engine/no-pause', `this node knows no pause ${clip(oneLine(id), MOST_WHY)}; ${known}`);
  }
  const title = titleOf(pause);
  if (pause.lifted !== undefined) return `The pause of ${title} was lifted before, on ${pause.lifted.node}.`;
  const lifted = { node, by: personOf(context) };
  const message = `The roll-out of ${title} goes on: pause ${id} is lifted (${pause.by} on ${pause.node}: ${pause.why})`;
  const event = { kind: 'rollOutResumed', level: 'info', message, ...authorOf(context) } as const;
  store.setPauses(
    pauses.map((one) => (one === pause ? { ...one, lifted } : one)),
    recorder.row(event),
  );
  recorder.log(event);
  return `${message}.`;
}

/** A pause that reaches nobody would promise too much. */
function ownNode({ policy, fleet }: CommandContext): string {
  if (!policy.fleet.enabled) {
    throw refuse('engine/no-fleet', 'this node activates alone: fleet.enabled is false');
  }
  const self = fleet?.view()?.self;
  if (self !== undefined) return self;
  throw refuse('engine/no-fleet', "stickpin-fleet.service does not answer: see 'systemctl status stickpin-fleet'");
}

/** `uid 1000: pauseRollOut` without the command. */
function personOf({ by = 'unknown user' }: CommandContext): string {
  return by.replace(/:.*/s, '');
}

function titleOf({ name, version }: Pick<Pause, 'name' | 'version'>): string {
  return version === undefined ? name : bundleTitle({ name, version });
}
