import { programImage } from '../bundles/program-image.ts';
import { makeSampleBundle, type SampleBundle, type SampleBundleOptions } from '../bundles/sample-bundle.ts';
import type { SampleLayer } from '../bundles/sample-image.ts';
import type { WantedPods } from '../pods/pods.ts';

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
