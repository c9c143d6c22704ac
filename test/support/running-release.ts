import type { WantedPods } from './pods/pods.ts';
import { programImage } from './program-image.ts';
import { makeSampleBundle, type SampleBundle, type SampleBundleOptions } from './sample-bundle.ts';
import type { SampleLayer } from './sample-image.ts';

/** A release whose images run: components `etcd` and `api`, which each release has its own of, and `tools`, the same in all. */
export interface RunningRelease extends SampleBundle {
  /** A pod of each component, by digest. */
  readonly pods: WantedPods;
}

/** Makes the bundle of release `1.<sequence>` of the stream `ocp`. Options are those of {@link makeSampleBundle}. */
export async function makeRunningRelease(
  sequence: number,
  program: SampleLayer,
  options: Omit<SampleBundleOptions, 'images' | 'sequence' | 'version'>,
): Promise<RunningRelease> {
  const version = `1.${sequence}.0`;
  const own = ['etcd', 'api'].map((component) => ({
    component,
    reference: `quay.example.com/ocp/${component}:${version}`,
    image: programImage(`${component}-${version}`, program),
  }));
  const tools = {
    component: 'tools',
    reference: 'quay.example.com/ocp/tools:1',
    image: programImage('tools', program),
  };
  const bundle = await makeSampleBundle({ ...options, version, sequence, images: [...own, tools] });
  const pods = bundle.contents.images.map(({ component = '', reference }) => [component, reference] as const);
  return { ...bundle, pods: Object.fromEntries(pods) };
}
