import type { VerifiedBundle } from '../../../../src/domain/model/bundle.ts';
import { assertNever } from '../../../../src/platform/app-error.ts';
import { createModelMachine } from '../model/model-machine.ts';
import { createModelNode } from '../model/model-node.ts';
import { digestOf, POLICY, UNSERVED, verified } from '../scenario.ts';
import { LETTERS, nameOf, planOf, refusalOf } from './releases.ts';
import { smallDisk } from './room.ts';
import { createSpeaker, phaseWords } from './speaker.ts';
import type { Component, Letter, Row, Scenario, ScenarioEvent } from './table.ts';

const MINUTE_MS = 60_000;

/** A scenario's node in memory: a virtual clock, a runtime that is a list, and `decide()`. */
export interface ModelStage {
  /** The effects of the first start. */
  begin(): readonly string[];
  /** Lets it happen, with all that follows. */
  play(event: ScenarioEvent): Promise<Row & { readonly mirrors: string }>;
}

/** A node that knows nothing yet. @param serve default: the mirrors go when nothing is loaded */
export function createModelStage({ lifecycle, traits, room }: Scenario, serve = UNSERVED.serve): ModelStage {
  const releases = new Map(LETTERS.map((letter) => [letter, releaseOf(letter, traits)] as const));
  const speaker = createSpeaker(releases);
  const machine = createModelMachine();
  const policy = { ...POLICY, serve, lifecycle: { ...POLICY.lifecycle, ...lifecycle } };
  const node = createModelNode({ machine, policy });
  if (room !== undefined) machine.filesystem = () => smallDisk(room, releases, [...machine.images.keys()]);
  const bundleOf = (letter: Letter): VerifiedBundle => {
    const bundle = releases.get(letter);
    if (bundle === undefined) throw new Error(`there is no release ${letter}`);
    return bundle;
  };
  const imageOf = (letter: Letter, component: Component): string =>
    bundleOf(letter).contents.images.find((image) => image.component === component)?.reference ?? '';

  function happen(event: ScenarioEvent): void {
    switch (event.kind) {
      case 'plug':
        node.plug(bundleOf(event.release));
        break;
      case 'unplug':
        for (const bundle of releases.values()) node.unplug(bundle);
        break;
      case 'run':
        for (const component of event.components) machine.run(component, imageOf(event.release, component));
        break;
      case 'debug':
        machine.run('debug', imageOf(event.release, event.component));
        break;
      case 'job':
        machine.run('job', imageOf(event.release, event.component));
        machine.end('job', 0);
        break;
      case 'exit':
        machine.end(event.pod, event.exitCode);
        break;
      case 'restart':
        machine.restart(event.pod);
        break;
      case 'drain':
        machine.drain();
        break;
      case 'pass':
        machine.pass(event.minutes * MINUTE_MS);
        break;
      case 'set-clock':
        machine.jump(event.minutes * MINUTE_MS);
        break;
      case 'restart-daemon':
        machine.pass(event.downMinutes * MINUTE_MS);
        node.restart();
        break;
      case 'reboot':
        machine.reboot();
        node.restart();
        break;
      case 'power-cut':
        machine.images.clear();
        machine.reboot();
        node.restart();
        break;
      case 'lose-state':
        node.forget();
        break;
      case 'lose-images':
        for (const component of event.components) machine.removeImage(imageOf(event.release, component));
        break;
      case 'lose-tags':
        for (const { tags } of bundleOf(event.release).contents.images)
          for (const tag of tags) machine.images.delete(tag);
        break;
      case 'activate':
        node.commands.activate(nameOf(event.release));
        break;
      case 'rollback':
        node.commands.rollback(undefined);
        break;
      case 'unpin':
        node.commands.unpin(nameOf(event.release), event);
        break;
      default:
        assertNever(event);
    }
  }

  return {
    begin: () => node.settle().map(speaker.effect),
    play: async (event) => {
      const refused = await refusalOf(() => happen(event));
      const effects = node.settle().map(speaker.effect);
      const images = machine.listed();
      const spoken = (some: typeof images) => speaker.references(some.flatMap(({ repoDigests }) => repoDigests));
      const bundles = node.assessment()?.bundles ?? [];
      return {
        event,
        effects,
        ...(refused !== undefined && { refused }),
        mirrors: machine.mirrors.map(repositoryName).join(' ') || 'nothing',
        phases: bundles.map((entry) => `${speaker.letter(entry.bundle.bundleId)} ${phaseWords(entry)}`).join(', '),
        pins: spoken(images.filter(({ pinned }) => pinned)),
        tags: speaker.tagged(images),
        images: spoken(images),
      };
    },
  };
}

function releaseOf(letter: Letter, traits: Scenario['traits']): VerifiedBundle {
  const { images, ...payload } = planOf(letter, traits);
  const own = images.map(({ component, seed, repository, tag }) => {
    const reference = `${repository}@${digestOf(`image ${seed}`)}`;
    return [seed, { component, reference, tags: [`${repository}:${tag}`] }] as const;
  });
  return verified({
    ...payload,
    images: Object.fromEntries(
      images.map(({ component, seed }) => [seed, component === 'base' ? ['os'] : ['os', seed]]),
    ),
    imageOver: Object.fromEntries(own),
  });
}

function repositoryName(repository: string): string {
  return repository.slice(repository.lastIndexOf('/') + 1);
}
