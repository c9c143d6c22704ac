import { expect } from 'vitest';
import { programImage } from '../bundles/program-image.ts';
import { makeSampleBundle, type SampleBundle, type SampleBundleOptions } from '../bundles/sample-bundle.ts';
import type { SampleLayer } from '../bundles/sample-image.ts';
import type { WantedPods } from '../pods/pods.ts';
import type { DaemonHarness } from './daemon-harness.ts';

/**
 * A release whose images run: components `etcd` and `api`, which each release has its own of, and
 * `tools`, the same in all, of which nothing runs. The tag of etcd is the same in all releases too,
 * so that it moves.
 */
export interface RunningRelease extends SampleBundle {
  /** A pod of `etcd` and one of `api`, by digest. */
  readonly pods: WantedPods;
}

/**
 * Makes the bundle of release `1.<sequence>` of the stream `ocp`. Options are those of {@link
 * makeSampleBundle}.
 */
export async function makeRunningRelease(
  sequence: number,
  program: SampleLayer,
  options: Omit<SampleBundleOptions, 'images' | 'sequence' | 'version'>,
): Promise<RunningRelease> {
  const version = `1.${sequence}.0`;
  const ownTags = { etcd: 'current', api: version };
  const own = Object.entries(ownTags).map(([component, tag]) => ({
    component,
    reference: `quay.example.com/ocp/${component}:${tag}`,
    image: programImage(`${component}-${version}`, program),
  }));
  const tools = {
    component: 'tools',
    reference: 'quay.example.com/ocp/tools:1',
    image: programImage('tools', program),
  };
  const bundle = await makeSampleBundle({ ...options, version, sequence, images: [...own, tools] });
  const running = bundle.contents.images.filter(({ component }) => component !== tools.component);
  const pods = running.map(({ component = '', reference }) => [component, reference] as const);
  return { ...bundle, pods: Object.fromEntries(pods) };
}

/** The phase of each release, by version. */
export const phasesOf = (harness: DaemonHarness): Record<string, string> =>
  Object.fromEntries(harness.report().bundles.map(({ version, phase }) => [version, phase]));

/** Waits until the releases of the node have these phases. */
export async function untilPhases(harness: DaemonHarness, wanted: Readonly<Record<string, string>>): Promise<void> {
  harness.engine.kick();
  await expect.poll(() => phasesOf(harness), { timeout: 60_000, interval: 20 }).toEqual(wanted);
}

/** Plugs the release in, and takes it out once it is activated. */
export async function bringRelease(harness: DaemonHarness, { path, bundleId }: RunningRelease): Promise<void> {
  harness.plug(path);
  await harness.until(
    ({ operation, bundles }) =>
      operation === 'idle' && bundles.some((one) => one.bundleId === bundleId && one.activatedAt !== undefined),
    60_000,
  );
  harness.unplug();
}
