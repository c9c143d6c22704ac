import packageJson from '../../package.json' with { type: 'json' };

/** The version in package.json. */
export const VERSION: string = packageJson.version;

/** `packaging/build.mjs` sets it from `SOURCE_DATE_EPOCH`; it is absent otherwise. */
declare const STICKPIN_BUILT_AT: number | undefined;

/**
 * Milliseconds since the epoch: `SOURCE_DATE_EPOCH` of the build (reproducible-builds.org), else a
 * day before this version existed.
 */
export const BUILT_AT: number =
  typeof STICKPIN_BUILT_AT === 'undefined' ? Date.parse(packageJson.notBefore) : STICKPIN_BUILT_AT;

/** `engines` in package.json, which its packages for sigstore need. */
const LEAST = [
  [22, 22, 2],
  [24, 15, 0],
  [26, 0, 0],
] as const;

/** Why Node.js `20.19.2` for example can't run stickpin; undefined when it can. */
export function unsupportedNode(version: string): string | undefined {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
  const least = LEAST.find(([of]) => of === major);
  if (least === undefined ? major > 26 : minor * 1000 + patch >= least[1] * 1000 + least[2]) return undefined;
  return `Node.js 22.22.2, 24.15, 26 or newer is needed, and this is ${version}. The installed program brings its own: run /usr/bin/stickpin. In a source tree run npm ci first, then use npm run.`;
}
