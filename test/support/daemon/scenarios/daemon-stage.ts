import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { RuntimeObservation } from '../../../../src/domain/model/image.ts';
import type { Effect } from '../../../../src/domain/state/effect.ts';
import { assertNever } from '../../../../src/platform/app-error.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import { openDatabase } from '../../../../src/store/database/database.ts';
import type { SampleBundle, SampleKey } from '../../bundles/sample-bundle.ts';
import { connectCri } from '../../crio-double/cri/cri-client.ts';
import { fixtureContainers } from '../../crio-double/cri/fixture-containers.ts';
import { eventually } from '../../eventually.ts';
import { createCrioNode } from '../runtimes/crio-node.ts';
import { createShiftedClock } from '../shifted-clock.ts';
import { nameOf, refusalOf } from './releases.ts';
import { RESERVED_PERCENT, smallDisk } from './room.ts';
import { createSpeaker, phaseWords } from './speaker.ts';
import type { Component, Letter, Row, Scenario, ScenarioEvent } from './table.ts';

const MINUTE_MS = 60_000;

/** A scenario's node: the daemon, and the CRI-O double behind real gRPC. */
export interface DaemonStage {
  /** Starts it, and waits until it is at rest. */
  begin(): Promise<void>;
  /** Lets it happen. Resolves with the code when a command is refused. */
  happen(event: ScenarioEvent): Promise<string | undefined>;
  /**
   * How it stands, once two rounds after each other found nothing to do, and all effects since the
   * last event.
   */
  atRest(): Promise<Came>;
  dispose(): Promise<void>;
}

/** What came of an event, in the words of a {@link Row}. */
export type Came = Required<Omit<Row, 'event' | 'refused'>> & { readonly mirrors: string };

/** A node that has not started yet, with the stick of each release at hand. */
export async function createDaemonStage(
  { lifecycle = {}, room }: Scenario,
  releases: ReadonlyMap<Letter, SampleBundle>,
  key: SampleKey,
): Promise<DaemonStage> {
  const speaker = createSpeaker(releases);
  const clock = createShiftedClock();
  const effects: Effect[] = [];
  let rounds = 0;
  let inserted: Letter | undefined;
  const watchRuntime = (runtime: RuntimeAdapter): RuntimeAdapter => ({
    ...runtime,
    observe: async (signal) => {
      rounds += 1;
      const seen = await runtime.observe(signal);
      return room === undefined ? seen : withRoom(seen, room, releases);
    },
  });
  const node = await createCrioNode(
    { lifecycle, preload: { min_free_percent: RESERVED_PERCENT } },
    {},
    {
      keys: [key],
      clock,
      boot: clock.boot,
      watchRuntime,
      afterEffect: (effect) => void effects.push(effect),
    },
  );
  const { harness } = node;
  const containers = fixtureContainers(node.double());
  const stick = `dir:${harness.settings.media.directories[0]}`;
  const engine = () => harness.engine;
  const bundleOf = (letter: Letter): SampleBundle => {
    const bundle = releases.get(letter);
    if (bundle === undefined) throw new Error(`there is no release ${letter}`);
    return bundle;
  };
  const imageOf = (letter: Letter, component: Component): string =>
    bundleOf(letter).contents.images.find((image) => image.component === component)?.reference ?? '';
  const removeNames = async (namesOf: readonly string[]): Promise<void> => {
    const client = connectCri(node.double().socketPath);
    try {
      for (const name of namesOf) await client.removeImage(name);
    } finally {
      client.close();
    }
  };
  const restart = async (whileDown: () => void | Promise<void>): Promise<void> => {
    await harness.stop();
    await whileDown();
    await harness.start();
  };
  const round = async (): Promise<void> => {
    const before = rounds;
    engine().kick();
    await eventually(() => {
      if (rounds === before) throw new Error('no round comes');
    }, 30_000);
  };
  const isIdle = (): boolean => {
    const report = engine().report();
    const medium = report?.media.find(({ medium: label }) => `dir:${label}` === stick)?.state;
    return report?.operation !== 'activating' && medium === (inserted === undefined ? undefined : 'read');
  };

  async function happen(event: ScenarioEvent): Promise<void> {
    switch (event.kind) {
      case 'plug':
        harness.plug(bundleOf(event.release).path);
        inserted = event.release;
        return;
      case 'unplug':
        harness.unplug();
        inserted = undefined;
        return;
      case 'run':
        for (const component of event.components) {
          await containers.start(component, imageOf(event.release, component));
        }
        return;
      case 'debug':
        await containers.start('debug', imageOf(event.release, event.component));
        return;
      case 'job':
        return containers.startEnded('job', imageOf(event.release, event.component), 0);
      case 'exit':
        return containers.end(event.pod, event.exitCode);
      case 'restart':
        return containers.restart(event.pod);
      case 'drain':
        return containers.clear();
      case 'pass':
        return clock.pass(event.minutes * MINUTE_MS);
      case 'set-clock':
        return clock.jump(event.minutes * MINUTE_MS);
      case 'restart-daemon':
        return restart(() => clock.pass(event.downMinutes * MINUTE_MS));
      // The pins file lies in /run on a node; there the guard of crio.service brings it back, which
      // has tests of its own.
      case 'reboot':
        return restart(async () => {
          containers.clear();
          clock.reboot();
          await node.restartRuntime();
        });
      case 'power-cut':
        return restart(async () => {
          containers.clear();
          clock.reboot();
          await node.powerCutAndWipe();
        });
      case 'lose-state':
        return restart(() => {
          const directory = harness.settings.paths.state_dir;
          const floors = floorsIn(directory);
          for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true });
          const database = openDatabase(join(directory, 'state.db'));
          database.prepare("INSERT INTO document (name, content) VALUES ('floors', ?)").run(floors);
          database.close();
        });
      case 'lose-images': {
        const wanted = event.components.map((component) => imageOf(event.release, component));
        const images = await harness.images();
        // By its id an image goes with all its names.
        return removeNames(
          images
            .filter(({ repoDigests }) => repoDigests.some((name) => wanted.includes(name)))
            .map((one) => one.imageId),
        );
      }
      case 'lose-tags':
        return removeNames(bundleOf(event.release).contents.images.flatMap(({ tags }) => tags));
      case 'activate':
        return engine().commands.activate({ bundle: nameOf(event.release) });
      case 'rollback':
        engine().commands.rollback({ stream: '' });
        return;
      case 'unpin':
        await engine().commands.unpin({ ...event, bundle: nameOf(event.release) }, new AbortController().signal);
        return;
      default:
        return assertNever(event);
    }
  }

  async function came(): Promise<Came> {
    const seen = await harness.daemon().observeRuntime(new AbortController().signal);
    if (seen.kind !== 'reachable') throw new Error(seen.reason);
    const spoken = (images: typeof seen.images) => speaker.references(images.flatMap(({ repoDigests }) => repoDigests));
    const ofStick = effects.filter((effect) => !('mediumId' in effect) || effect.mediumId === stick);
    return {
      effects: ofStick.map(speaker.effect),
      phases: (engine().report()?.bundles ?? [])
        .map((entry) => `${speaker.letter(entry.bundleId)} ${phaseWords(entry)}`)
        .join(', '),
      pins: spoken(seen.images.filter(({ pinned }) => pinned)),
      tags: speaker.tagged(seen.images),
      images: spoken(seen.images),
      mirrors: seen.renderedMirrors.map((name) => name.slice(name.lastIndexOf('/') + 1)).join(' ') || 'nothing',
    };
  }

  const look = async (): Promise<Came> => {
    const before = effects.length;
    await round();
    await round();
    if (!isIdle() || effects.length !== before) throw new Error('the node does not come to rest');
    return came();
  };
  const atRest = () => eventually(look, 60_000, 50);

  return {
    atRest,
    begin: async () => {
      await harness.start();
      await atRest();
    },
    happen: (event) => {
      effects.length = 0;
      return refusalOf(() => happen(event));
    },
    dispose: () => node.dispose(),
  };
}

/** The same runtime on a small disk. */
function withRoom(
  seen: RuntimeObservation,
  room: readonly Letter[],
  releases: ReadonlyMap<Letter, SampleBundle>,
): RuntimeObservation {
  if (seen.kind !== 'reachable') return seen;
  const { staging: _elsewhere, ...rest } = seen;
  return {
    ...rest,
    filesystem: smallDisk(
      room,
      releases,
      seen.images.flatMap(({ repoDigests }) => repoDigests),
    ),
  };
}

/** The floors in the mirror. */
function floorsIn(directory: string): string {
  const { content } = JSON.parse(readFileSync(join(directory, 'state.json'), 'utf8'));
  return content.tables.document.find(({ name }: { readonly name: string }) => name === 'floors').content;
}
