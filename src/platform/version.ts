import packageJson from '../../package.json' with { type: 'json' };

/** The version of this program, as in package.json. */
export const VERSION: string = packageJson.version;

/**
 * Put in by `packaging/build.mjs` from `SOURCE_DATE_EPOCH`; absent without it and without a build.
 */
declare const STICKPIN_BUILT_AT: number | undefined;

/**
 * When this program was built, in milliseconds since the epoch: `SOURCE_DATE_EPOCH` of the build
 * (reproducible-builds.org), else a day before which this version did not exist.
 */
export const BUILT_AT: number =
  typeof STICKPIN_BUILT_AT === 'undefined' ? Date.parse(packageJson.notBefore) : STICKPIN_BUILT_AT;

/** The oldest Node.js that stickpin and its native modules run on: `engines` in package.json. */
const LEAST = { major: 22, minor: 19 };

/**
 * Why this version of Node.js (`process.versions.node`, such as `20.19.2`) can't run stickpin;
 * undefined when it can.
 */
export function unsupportedNode(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > LEAST.major || (major === LEAST.major && minor >= LEAST.minor)) return undefined;
  return `Node.js ${LEAST.major}.${LEAST.minor} or newer is needed, and this is ${version}. The installed program brings its own: run /usr/bin/stickpin. In a source tree run npm ci first, then use npm run.`;
}
