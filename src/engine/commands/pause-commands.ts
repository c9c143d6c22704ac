import type { FleetView } from '../../domain/fleet/node-status.ts';
import {
  endOf,
  isOwn,
  LONGEST_PAUSE_MS,
  MOST_OF_NODE,
  MOST_WHY,
  mayLift,
  newPause,
  PAUSE_MS,
  type Pause,
} from '../../domain/fleet/pause.ts';
import { bundleName, STREAM_NAME } from '../../domain/model/bundle.ts';
import { isVersion } from '../../domain/model/version.ts';
import { pauseEvents } from '../../domain/report/events/pause-events.ts';
import { liftedByText, orControlPlane, pausedTitle, saidByText } from '../../domain/report/texts/pause-texts.ts';
import { timeText } from '../../domain/report/texts/short-texts.ts';
import { defined } from '../../platform/defined.ts';
import { clip, oneLine } from '../../platform/plain-text.ts';
import { formatCount } from '../../platform/sizes.ts';
import { authorOf, type CommandContext, refuse } from './command-context.ts';

/** Names of releases in a message. */
const MOST_NAMED = 8;

/** Stands for the ids of all pauses that this node may lift. */
const ALL = 'all';

export interface PauseArgs {
  /** `ocp` or `ocp@4.13.7`. */
  readonly release: string;
  readonly why: string;
  readonly seconds?: number;
}

export function pauseRollOut(context: CommandContext, { release, why, seconds = 0 }: PauseArgs): string {
  const { clock, store } = context.ports;
  const view = fleetView(context);
  const [, name = '', version] = /^([^@]+)(?:@(.+))?$/.exec(release) ?? [];
  if (!STREAM_NAME.test(name) || (version !== undefined && !isVersion(version))) {
    throw refuse(
      'engine/no-release',
      `${clip(oneLine(release), MOST_WHY)} names no release: write NAME or NAME@VERSION`,
    );
  }
  const matched = matchedText(context, view, defined({ name, version }));
  const reason = oneLine(why);
  if (reason === '' || reason.length > MOST_WHY) {
    throw refuse('engine/no-pause', `say in at most ${MOST_WHY} characters why the roll-out is paused`);
  }
  const { pauses = [] } = store.load();
  if (pauses.filter(isOwn).length >= MOST_OF_NODE) {
    const text = `${MOST_OF_NODE} pauses were said on this node, and other nodes take no more from it: wait until one has ended, and an hour has passed since it began`;
    throw refuse('engine/no-pause', text);
  }
  const forMs = seconds <= 0 ? PAUSE_MS : Math.min(1_000 * seconds, LONGEST_PAUSE_MS);
  const details = { name, version, node: view.self, by: personOf(context), why: reason, atMs: clock.now(), forMs };
  const pause = newPause(defined(details));
  write(context, [pause, ...pauses.filter((one) => !isOwn(one) || one.id !== pause.id)]);
  const until = timeText(endOf(pause));
  return `The roll-out of ${pausedTitle(pause)} (${matched}) is paused until ${until}: ${reason}. What has begun ends. 'stickpin fleet resume ${pause.id}' on this node${orControlPlane(view)} ends the pause.`;
}

/** @param id or {@link ALL} */
export function resumeRollOut(context: CommandContext, id: string): string {
  const { pauses = [] } = context.ports.store.load();
  const view = fleetView(context);
  const open = pauses.filter(({ lifted }) => lifted === undefined);
  const named = id === ALL ? open : pauses.filter((one) => one.id === id);
  const [first] = named;
  if (first === undefined) {
    const known = open.length === 0 ? 'it knows none' : `it knows ${open.map((one) => one.id).join(', ')}`;
    const what = id === ALL ? 'no pause that lasts' : `no pause ${clip(oneLine(id), MOST_WHY)}`;
    throw refuse('engine/no-pause', `this node knows ${what}${id === ALL ? '' : `; ${known}`}`);
  }
  const inForce = named.filter(({ lifted }) => lifted === undefined);
  if (inForce.length === 0 && first.lifted !== undefined) {
    const by = liftedByText(first.lifted, first.liftedFrom);
    return `The pause of ${pausedTitle(first)} was lifted before, by ${by}.`;
  }
  const labels = view.nodes.find(({ name }) => name === view.self)?.facts?.labels;
  const mine = inForce.filter((one) => mayLift(one, view.self, labels));
  const others = inForce.filter((one) => !mine.includes(one)).map((one) => `${one.id} (${saidByText(one)})`);
  const elsewhere =
    view.keys === undefined
      ? ' or on one of the control plane, which this one is not as far as the Kubernetes API has shown'
      : '';
  const refused = `A lift of ${others.join(', ')} counts only on that node${elsewhere}; 'stickpin activate' overrides a pause on one node, and 'stickpin fleet remove' a node`;
  if (mine.length === 0) throw refuse('engine/no-pause', refused);
  const lifted = { node: view.self, by: personOf(context) };
  write(
    context,
    pauses.map((one) => (mine.includes(one) ? { ...one, lifted } : one)),
  );
  const done = mine.map(
    (one) => `The roll-out of ${pausedTitle(one)} goes on: pause ${one.id} is lifted (${saidByText(one)}: ${one.why}).`,
  );
  return [...done, ...(others.length === 0 ? [] : [`${refused}.`])].join(' ');
}

function write(context: CommandContext, next: readonly Pause[]): void {
  const { ports, recorder } = context;
  const { store } = ports;
  const events = pauseEvents(store.load().pauses ?? [], next).map((event) => ({ ...event, ...authorOf(context) }));
  store.setPauses(
    next,
    events.map((event) => recorder.row(event)),
  );
  for (const event of events) recorder.log(event);
}

/** What a pause is about: `ocp@4.13.7 on 3 nodes`. @throws AppError `engine/no-release` */
function matchedText(
  { ports: { store } }: CommandContext,
  { self, nodes }: FleetView,
  wanted: { readonly name: string; readonly version?: string },
): string {
  const known = new Map<string, Set<string>>();
  const matched = new Map<string, Set<string>>();
  const add = (release: { readonly name: string; readonly version: string }, node: string) => {
    const isMeant = release.name === wanted.name && release.version === (wanted.version ?? release.version);
    const into = isMeant ? matched : known;
    const title = bundleName(release);
    into.set(title, new Set([...(into.get(title) ?? []), node]));
  };
  for (const { payload } of store.load().bundles) add(payload, self);
  for (const { name, status } of nodes) {
    for (const release of status?.releases ?? []) {
      if (release.phase !== 'retired' && release.phase !== 'rejected') add(release, name);
    }
  }
  if (matched.size > 0) return listed([...matched].map(([title, on]) => `${title} on ${formatCount(on.size, 'node')}`));
  const others = known.size === 0 ? 'none is known' : `known are ${listed([...known.keys()])}`;
  throw refuse(
    'engine/no-release',
    `no node that this one hears of has ${wanted.version === undefined ? `a release of ${wanted.name}` : bundleName({ ...wanted, version: wanted.version })}, so nothing is paused; ${others}`,
  );
}

function listed(texts: readonly string[]): string {
  const more = texts.length - MOST_NAMED;
  return `${texts.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** A pause that reaches nobody would promise too much. */
function fleetView({ ports: { policy, fleet } }: CommandContext): FleetView {
  if (!policy.fleet.enabled) {
    throw refuse('engine/no-fleet', 'this node activates alone: fleet.enabled is false');
  }
  const view = fleet?.view();
  if (view === undefined) {
    throw refuse('engine/no-fleet', "stickpin-fleet.service does not answer: see 'systemctl status stickpin-fleet'");
  }
  if (view.isRemoved !== true) return view;
  const why = view.keys === undefined ? `Kubernetes has no Node ${view.self}, or ` : '';
  throw refuse(
    'engine/no-fleet',
    `this node was removed from the cluster, so others do not listen to it: ${why}fleet.exclude names it. Run this on another node`,
  );
}

/** `uid 1000: pauseRollOut` without the command. */
function personOf({ by = 'unknown user' }: CommandContext): string {
  return by.replace(/:.*/s, '');
}
