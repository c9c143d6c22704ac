import { type Assessment, assess } from '../../../../src/domain/assess/assess.ts';
import { decide } from '../../../../src/domain/decide/decide.ts';
import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import type { BundleId } from '../../../../src/domain/model/digest.ts';
import type { MediumId, MediumState } from '../../../../src/domain/model/medium.ts';
import { RULE_CODES } from '../../../../src/domain/model/reason.ts';
import { needsContainers, runningReleases } from '../../../../src/domain/release/running-releases.ts';
import { tagGoalsOf } from '../../../../src/domain/release/tag-goals.ts';
import { allGoalsOf, tagsGivenLately } from '../../../../src/domain/release/tags.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import type { Memory, PinsRequested, RunningTask, TagGiven } from '../../../../src/domain/state/memory.ts';
import type { PastRelease } from '../../../../src/domain/state/past.ts';
import { type Observed, type Stored, type StoredBundle, stampAfter } from '../../../../src/domain/state/state.ts';
import type { Role } from '../../../../src/domain/trust/role.ts';
import type { CommandContext } from '../../../../src/engine/commands/command-context.ts';
import { Commands } from '../../../../src/engine/commands/commands.ts';
import { retireByHand, type UnpinArgs } from '../../../../src/engine/commands/unpin-commands.ts';
import type { EventRow, StateStore } from '../../../../src/ports/state.ts';
import { FACTS, found, medium, observation, reachable, type Scene, storedState } from '../scenario.ts';
import type { ModelMachine } from './model-machine.ts';

/** What a person may ask of releases. What runs is looked at when it is asked for. */
export interface ModelCommands {
  activate(bundle: string, options?: { readonly override: boolean }): void;
  rollback(stream: string | undefined): string;
  unpin(bundle: string, options: Omit<UnpinArgs, 'bundle'>): void;
}

/**
 * `decide()` on a {@link ModelMachine}: its effects change the machine at once, as the executors
 * would; pulls and activations work.
 */
export interface ModelNode {
  readonly commands: ModelCommands;
  bundles(): readonly StoredBundle[];
  /** What the last round concluded. */
  assessment(): Assessment | undefined;
  plug(bundle: VerifiedBundle): void;
  unplug(bundle: VerifiedBundle): void;
  /**
   * Rounds until nothing is left to do at this moment. Returns all effects in the order in which
   * they were done.
   *
   * @throws Error when the decisions come to no end
   */
  settle(): readonly Effect[];
  /** The daemon is another process now: of what it knew only what is stored is left. */
  restart(): void;
  /** Everything that is stored is lost. */
  forget(): void;
}

/** How a {@link ModelNode} is set up. */
export interface ModelNodeOptions {
  readonly machine: ModelMachine;
  readonly policy: Policy;
  /** In force. Default none. */
  readonly roles?: readonly Role[];
  /** Called with what each round decided, before it is done. */
  readonly onDecision?: (effects: readonly Effect[]) => void;
  /** Called whenever there is nothing left to do. */
  readonly onRest?: () => void;
}

/** More rounds than anything takes that comes to an end. */
const ENDLESS_ROUNDS = 60;

/** A node that knows nothing yet. */
export function createModelNode({ machine, policy, roles = [], onDecision, onRest }: ModelNodeOptions): ModelNode {
  const sticks = new Map<MediumId, { readonly bundle: VerifiedBundle; readonly state: MediumState }>();
  let bundles: readonly StoredBundle[] = [];
  let past: readonly PastRelease[] = [];
  let pulledByUs: ReadonlySet<string> = new Set();
  let keeping: Memory['keeping'] = new Map();
  let localBlobs: Observed['localBlobs'] = new Set();
  let pinsRequested: PinsRequested | undefined;
  let tagsGiven: readonly TagGiven[] = [];
  let last: Assessment | undefined;
  /** Uptime of the last look at containers. */
  let lastLookMs = Number.NEGATIVE_INFINITY;

  const stored = (): Stored => storedState(bundles, { pulledByUs, past });
  const stamp = () => stampAfter(bundles, machine.now());
  const change = (bundleId: BundleId, fields: Partial<StoredBundle>) => {
    bundles = bundles.map((one) => (one.bundleId === bundleId ? { ...one, ...fields } : one));
  };
  const move = (mediumId: MediumId, stateOf: (bundle: VerifiedBundle) => MediumState) => {
    const stick = sticks.get(mediumId);
    if (stick !== undefined) sticks.set(mediumId, { ...stick, state: stateOf(stick.bundle) });
  };

  function observed(): Scene {
    const { pins, mirrors } = machine;
    const rendered = { renderedPins: [...pins], foundPins: [...pins], renderedMirrors: [...mirrors] };
    const runtime = reachable({ images: machine.listed(), filesystem: machine.filesystem(), ...rendered });
    const imageUses = { uses: [], faults: [], isComplete: true };
    const isShort = (last?.short.length ?? 0) > 0;
    const sinceListMs = machine.boot().uptimeMs - lastLookMs;
    const isLooked = needsContainers(stored(), runtime, policy, {
      isShort,
      sinceListMs,
      tagsGiven,
      observed: { now: machine.now(), boot: machine.boot(), imageUses },
    });
    if (isLooked) lastLookMs = machine.boot().uptimeMs;
    return observation({
      now: machine.now(),
      roles,
      keeping,
      localBlobs,
      pinsRequested,
      tagsGiven,
      runtime,
      boot: machine.boot(),
      containers: isLooked ? machine.containers().map(({ sinceMs: _, ...container }) => container) : undefined,
      imageUses,
      media: [...sticks].map(([mediumId, { state }]) => ({ ...medium(mediumId, state), mediumId })),
    });
  }

  const plugged = (bundleId: BundleId) =>
    [...sticks.values()].find((stick) => stick.bundle.bundleId === bundleId)?.bundle;
  const unknown = ({ kind }: Effect) => {
    throw new Error(`the model does not know ${kind}: nothing in it runs long, is cancelled or is signed anew`);
  };
  const executors: Executors = {
    'mount-medium': ({ mediumId }) => move(mediumId, () => ({ kind: 'mounted' })),
    'read-medium': ({ mediumId }) =>
      move(mediumId, (bundle) => ({ kind: 'read', bundles: [found(bundle)], trustRevision: 'keys-1' })),
    'keep-documents': ({ bundleId }) => {
      const images = plugged(bundleId)?.contents.images ?? [];
      localBlobs = new Set([...localBlobs, ...images.map(({ digest }) => digest)]);
      keeping = new Map([...keeping, [bundleId, { done: 1, total: 1 }]]);
    },
    'adopt-bundle': ({ bundleId }) => {
      const bundle = plugged(bundleId);
      const back = past.find((one) => one.bundleId === bundleId)?.record;
      past = past.filter((one) => one.bundleId !== bundleId);
      if (bundle !== undefined) bundles = [...bundles, { ...bundle, ...back, adoptedAt: machine.now() }];
    },
    'apply-pins': ({ references, unpinned }) => {
      machine.pins = references;
      pinsRequested = { references, unpinned, attempts: 1, at: machine.now() };
    },
    'heal-images': unknown,
    'forget-release': ({ bundleId }) => {
      const gone = bundles.find((one) => one.bundleId === bundleId);
      bundles = bundles.filter((one) => one !== gone);
      if (gone === undefined) return;
      const { contents: _contents, signedBy: _signedBy, payload, ...record } = gone;
      past = [...past, { bundleId, payload, record }];
    },
    'apply-mirrors': ({ repositories }) => {
      machine.mirrors = repositories;
    },
    start: ({ task }) => {
      if (task.kind === 'pull') pull(task.reference);
      else giveTags(task);
    },
    cancel: unknown,
    'run-hook': unknown,
    'resume-preload': unknown,
    'record-media-left': unknown,
    'record-signers': unknown,
    'record-bad-blobs': ({ bundleId, badBlobs }) => change(bundleId, { badBlobs }),
    'record-ready': ({ bundleId }) => change(bundleId, { readyAt: machine.now() }),
    'record-soak': ({ bundleId, soak }) => change(bundleId, { soak }),
    'record-active': ({ bundleId }) => change(bundleId, { activeAt: stamp() }),
    'record-proven': ({ bundleId }) => change(bundleId, { provenAt: stamp() }),
    'record-rolled-back': ({ bundleId, to }) => {
      change(bundleId, { rolledBackAt: stamp(), rolledBackReason: 'back' });
      change(to, { activationRequestedAt: stamp() });
    },
    'request-activation': ({ bundleId }) =>
      change(bundleId, { activationRequestedAt: stamp(), activationOverrides: RULE_CODES }),
    'take-over': ({ bundleId, from, retireFrom }) => {
      const isProven = bundles.some((one) => one.bundleId === from && one.provenAt !== undefined);
      if (isProven) change(bundleId, { provenAt: stamp() });
      change(bundleId, { activeAt: stamp() });
      if (retireFrom) change(from, { retiredAt: stamp(), removeImages: false });
    },
    retire: ({ bundleId, removeImages }) => change(bundleId, { retiredAt: stamp(), removeImages }),
    'remove-images': ({ images, tags = [], stopped = [] }) => {
      machine.removeContainers(stopped.map(({ containerId }) => containerId));
      for (const { imageId, containerIds } of images) {
        machine.removeContainers(containerIds);
        machine.removeImage(imageId);
      }
      for (const tag of tags) machine.images.delete(tag);
    },
  };

  function pull(reference: string): void {
    const digest = reference.slice(reference.indexOf('@') + 1);
    if (last?.life.foreign.has(digest) !== true) pulledByUs = new Set([...pulledByUs, reference]);
    machine.images.set(reference, reference);
  }

  function giveTags(task: Exclude<RunningTask, { kind: 'pull' }>): void {
    const bundle = bundles.find((one) => one.bundleId === task.bundleId);
    if (bundle === undefined || last === undefined) return;
    const goals =
      task.kind === 'activate'
        ? tagGoalsOf(bundle)
        : allGoalsOf(bundle, last.tags).filter(({ tag }) => task.tags.includes(tag));
    for (const { tag, reference } of goals) machine.images.set(tag, machine.images.get(reference) ?? reference);
    if (task.kind === 'restore-tags') {
      tagsGiven = [...tagsGiven, ...goals.map(({ tag }) => ({ tag, at: machine.now() }))];
      return;
    }
    tagsGiven = tagsGiven.filter(({ tag }) => goals.every((goal) => goal.tag !== tag));
    change(task.bundleId, { activatedAt: stamp() });
  }

  const store = {
    load: stored,
    change,
    rollBack: (bundleId: BundleId, { at }: EventRow, next: { bundleId: BundleId; event: EventRow }) => {
      change(bundleId, { rolledBackAt: at, rolledBackReason: 'by hand' });
      change(next.bundleId, { activationRequestedAt: next.event.at });
    },
  } as unknown as StateStore;
  const clock = { now: machine.now, monotonic: () => machine.boot().uptimeMs, sleep: async () => undefined };

  const judge = (state: Stored) => {
    const seen = observed();
    return assess(seen, seen, state, policy);
  };
  const ports = { clock, store, policy, node: { facts: () => FACTS }, wantRound: () => undefined };
  // Commands on releases use no other part of the engine.
  const context = { ports, assessment: () => last, judge } as unknown as CommandContext;
  const commands = new Commands(context);

  const node: ModelNode = {
    commands: {
      activate: (bundle, options) =>
        options?.override ? commands.activate({ bundle, override: true }) : commands.activate({ bundle }),
      rollback: (stream = '') => commands.rollback({ stream }),
      unpin: (bundle, options) => {
        const seen = { images: machine.listed(), containers: machine.containers() };
        retireByHand(context, { bundle, ...options }, { releases: runningReleases(bundles, seen), isSeenNow: true });
      },
    },
    bundles: () => bundles,
    assessment: () => last,
    plug: (bundle) => void sticks.set(mediumOf(bundle), { bundle, state: { kind: 'attached' } }),
    unplug: (bundle) => void sticks.delete(mediumOf(bundle)),
    settle: () => {
      const done: Effect[] = [];
      for (let rounds = 0; rounds < ENDLESS_ROUNDS; rounds += 1) {
        const seen = observed();
        last = assess(seen, seen, stored(), policy);
        tagsGiven = tagsGivenLately(tagsGiven, last.tags.settled, machine.now());
        const { effects } = decide(seen, seen, last, policy);
        onDecision?.(effects);
        if (effects.length === 0) {
          onRest?.();
          return done;
        }
        for (const effect of effects) (executors[effect.kind] as (effect: Effect) => void)(effect);
        done.push(...effects);
      }
      throw new Error('the decisions do not settle');
    },
    restart: () => {
      machine.mirrors = [];
      keeping = new Map();
      [pinsRequested, last, lastLookMs] = [undefined, undefined, Number.NEGATIVE_INFINITY];
      for (const [mediumId, { bundle }] of sticks) sticks.set(mediumId, { bundle, state: { kind: 'attached' } });
    },
    forget: () => {
      node.restart();
      bundles = [];
      past = [];
      pulledByUs = new Set();
      localBlobs = new Set();
      tagsGiven = [];
    },
  };
  return node;
}

type Executors = { readonly [Kind in Effect['kind']]: (effect: Extract<Effect, { readonly kind: Kind }>) => void };

function mediumOf({ payload }: VerifiedBundle): MediumId {
  return `stick-${payload.name}-${payload.sequence}`;
}
