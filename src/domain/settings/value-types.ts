import * as v from 'valibot';
import { STREAM_NAME } from '../model/bundle.ts';
import { type BundleId, isDigest } from '../model/digest.ts';
import { knownFilesystems } from '../model/medium.ts';
import { isCanonicalReference, isTag, parseReference } from '../model/reference.ts';
import { isVersion } from '../model/version.ts';
import { isTimeZone, WEEK_MINUTES, WEEKDAYS, type WeeklyWindow } from '../model/windows.ts';

/** A type of settings: it reads a value, and documents it for the reference. */
export interface ValueType<Value> {
  /** The name, such as `duration` or `list of absolute paths`. */
  readonly name: string;
  /** The unit of a number. Absent for a value without one. */
  readonly unit?: string;
  /** The accepted values, in Markdown. Absent when every value of the type is accepted. */
  readonly range?: string;
  /** Reads a value as it is written in a file. */
  readonly schema: v.GenericSchema<unknown, Value>;
}

const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)?$/;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** Seconds as a number, or text with a unit: `"90 s"`, `"10 min"`. Becomes milliseconds. */
export const duration: ValueType<number> = {
  name: 'duration',
  unit: `${Object.keys(UNIT_MS).join(', ')}; s when none is given`,
  range: '0 or more',
  schema: v.pipe(
    v.union([v.number(), v.string()], 'must be seconds, or text such as "90 s"'),
    v.check((value) => DURATION.test(String(value)), 'must be seconds, or text such as "90 s", "10 min", "1 h"'),
    v.transform((value) => {
      const [, amount, unit] = DURATION.exec(String(value)) ?? [];
      return Number(amount) * (UNIT_MS[unit ?? 's'] ?? 1_000);
    }),
  ),
};

/** A duration, or `"keep"` for no end. */
export const durationOrKeep: ValueType<number | 'keep'> = {
  ...duration,
  name: '`"keep"` or duration',
  range: '`"keep"`, or more than 0',
  schema: v.union(
    [
      v.literal('keep'),
      v.pipe(
        duration.schema,
        v.check((ms) => ms > 0, 'must be "keep", or more than 0'),
      ),
    ],
    'must be "keep", or a duration above 0 such as "14 d"',
  ),
};

export const flag: ValueType<boolean> = { name: 'boolean', schema: v.boolean() };

export const texts: ValueType<readonly string[]> = { name: 'list of strings', schema: v.array(v.string()) };

/** The reference of a bundle in a registry. */
export const bundleReference: ValueType<string> = {
  name: 'reference',
  range: '`registry/repository:tag`',
  schema: v.pipe(
    v.string('must be a text'),
    v.maxLength(253, 'must have at most 253 characters'),
    v.check(isTagged, 'must be registry/repository:tag, such as "registry.example.com/bundles/ocp:4.13"'),
  ),
};

function isTagged(text: string): boolean {
  try {
    const { tag, digest } = parseReference(text);
    return tag !== undefined && digest === undefined;
  } catch {
    return false;
  }
}

/** The base of the addresses of a service, without a trailing slash, or empty for none. */
export const serviceUrl: ValueType<string> = {
  name: 'URL, or empty',
  range: '`http://` or `https://`, without a query; at most 1,000 characters',
  schema: v.pipe(
    v.string(),
    v.maxLength(1_000, 'must have at most 1,000 characters'),
    v.check((url) => url === '' || isServiceUrl(url), 'must be a URL such as "https://locks.example.com/fleet"'),
    v.transform((url) => url.replace(/\/+$/, '')),
  ),
};

function isServiceUrl(text: string): boolean {
  if (!/^https?:\/\/[^\s?#]+$/.test(text)) return false;
  return URL.canParse(text);
}

/** The group in FleetLock, "Body". */
export const lockGroup: ValueType<string> = {
  name: 'group of nodes',
  range: 'letters, digits, `.` and `-`; at most 100',
  schema: v.pipe(
    v.string(),
    v.regex(/^[a-zA-Z0-9.-]{1,100}$/, 'must have letters, digits, "." and "-" only, at most 100'),
  ),
};

export const absolutePath: ValueType<string> = {
  name: 'absolute path',
  schema: v.pipe(
    v.string(),
    v.check((path) => path.startsWith('/'), 'must be an absolute path'),
  ),
};

/** An absolute path of a file that the textfile collector of node_exporter reads. */
export const textfilePath: ValueType<string> = {
  name: absolutePath.name,
  range: 'ends in `.prom`',
  schema: v.pipe(
    absolutePath.schema,
    v.check((path) => path.endsWith('.prom'), 'must end in .prom, since node_exporter reads no other file'),
  ),
};

/** An absolute path, or `"auto"`, which finds it on the node. */
export const absolutePathOrAuto: ValueType<string> = {
  name: '`"auto"` or absolute path',
  schema: v.union([v.literal('auto'), absolutePath.schema], 'must be "auto" or an absolute path'),
};

export const absolutePaths: ValueType<readonly string[]> = {
  name: 'list of absolute paths',
  schema: v.array(absolutePath.schema),
};

/** A whole number from `minimum` to `maximum`, both included. */
export const wholeNumber = (minimum: number, maximum = Number.POSITIVE_INFINITY): ValueType<number> => ({
  name: 'whole number',
  range: maximum === Number.POSITIVE_INFINITY ? `${minimum} or more` : `${minimum} to ${maximum}`,
  schema: v.pipe(v.number(), v.integer(), v.minValue(minimum), v.maxValue(maximum)),
});

/**
 * A whole number from `minimum` to `maximum`, both included, or `"auto"` for the node's best value.
 */
export const wholeNumberOrAuto = (minimum: number, maximum: number): ValueType<number | 'auto'> => {
  const message = `must be "auto", or a whole number from ${minimum} to ${maximum}`;
  const isFit = (value: number) => Number.isInteger(value) && value >= minimum && value <= maximum;
  return {
    name: '`"auto"` or whole number',
    range: `\`"auto"\`, or ${minimum} to ${maximum}`,
    schema: v.pipe(
      v.union([v.literal('auto'), v.number()], message),
      v.check((value) => value === 'auto' || isFit(value), message),
    ),
  };
};

/** A share in percent, from 0 to `maximum`, both included, or `auto`. */
export const percentOrAutoUpTo = (maximum: number): ValueType<number | 'auto'> => {
  const message = `must be "auto", or a number from 0 to ${maximum}`;
  return {
    name: '`"auto"` or number',
    unit: 'percent',
    range: `\`"auto"\`, or 0 to ${maximum}`,
    schema: v.union([v.literal('auto'), v.pipe(v.number(), v.minValue(0), v.maxValue(maximum))], message),
  };
};

/** A part of a whole, from 0 to 1, both included. */
export const fraction: ValueType<number> = {
  name: 'number',
  range: '0 to 1',
  schema: v.pipe(
    v.number('must be a number from 0 to 1'),
    v.minValue(0, 'must be a number from 0 to 1'),
    v.maxValue(1, 'must be a number from 0 to 1'),
  ),
};

/** @param message the fault of any other value. Default: that of the library */
export const oneOf = <const Word extends string>(words: readonly Word[], message?: string): ValueType<Word> => ({
  name: 'string',
  range: words.map((word) => `\`${JSON.stringify(word)}\``).join(', '),
  schema: v.picklist(words, message),
});

export const userIds: ValueType<readonly number[]> = {
  name: 'list of user ids',
  range: '0 or more',
  schema: v.array(wholeNumber(0).schema),
};

export const bundleDigests: ValueType<readonly BundleId[]> = {
  name: 'list of digests',
  range: '`"sha256:…"` with 64 lower-case hex digits',
  schema: v.array(
    v.custom<BundleId>(
      (value) => typeof value === 'string' && isDigest(value),
      'must be a bundle digest, sha256:<64 lower-case hex digits>',
    ),
  ),
};

/** Names of Nodes (RFC 1123), or the SHA-256 of certificates. */
export const excludedNodes: ValueType<readonly string[]> = {
  name: 'list of nodes',
  range: 'names of Nodes, or `"sha256:…"` of a certificate',
  schema: v.pipe(
    v.array(
      v.pipe(
        v.string(),
        v.regex(
          /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?|sha256:[0-9a-f]{64})$/,
          'must be the name of a Node, or sha256:<64 lower-case hex digits> of its certificate',
        ),
      ),
    ),
    v.maxLength(1_000),
  ),
};

/** Any number of releases, such as `ocp@4.13.0`. */
export const releases: ValueType<readonly string[]> = {
  name: 'list of releases',
  range: '`"name@version"`',
  schema: v.array(v.pipe(v.string(), v.regex(/^[^@\s]+@[^@\s]+$/, 'must name a release, as "ocp@4.13.0"'))),
};

/** Any number of repositories, with the registry and without tag or digest, as images name them. */
export const repositories: ValueType<readonly string[]> = {
  name: 'list of repositories',
  range: '`"registry/path"`, without tag or digest',
  schema: v.array(
    v.pipe(
      v.string(),
      v.check(isRepository, 'must be a repository with its registry, as "quay.io/coreos/etcd", without tag or digest'),
    ),
  ),
};

export const tags: ValueType<readonly string[]> = {
  name: 'list of tags',
  range: 'at most 8 tags, as `"latest"`',
  schema: v.pipe(
    v.array(v.pipe(v.string(), v.check(isTag, 'must be a tag, as "latest"'))),
    v.maxLength(8, 'must have at most 8 entries'),
  ),
};

/** Container names that Docker accepts. */
export const containerNames: ValueType<readonly string[]> = {
  name: 'list of containers',
  range: 'at most 100 names of containers, as `"swss"`',
  schema: v.pipe(
    v.array(
      v.pipe(
        v.string(),
        v.regex(
          /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$/,
          'must be the name of a container: letters, digits, ".", "_" and "-"',
        ),
      ),
    ),
    v.maxLength(100, 'must have at most 100 entries'),
  ),
};

/** The version of a release. */
export const version: ValueType<string> = {
  name: 'string',
  range: 'a version, as `"4.13.6"` or `"2.6.2-rev1-b5.1"`',
  schema: v.pipe(v.string(), v.check(isVersion, 'must be a version, such as "4.13.6" or "2.6.2-rev1-b5.1"')),
};

/** Names of release streams (bundle format 1, `name`). */
export const streamName = v.pipe(
  v.string(),
  v.regex(STREAM_NAME, `must be the name of a stream, ${STREAM_NAME.source}`),
);

export const streamNames: ValueType<readonly string[]> = {
  name: 'list of streams',
  range: 'names of release streams, as `"ocp"`',
  schema: v.array(streamName),
};

const filesystem = v.pipe(
  v.string(),
  v.check(
    (value) => knownFilesystems.includes(value),
    `must be a filesystem that stickpin can mount safely, one of ${knownFilesystems.join(', ')}`,
  ),
);

/** At least one filesystem that stickpin can mount, each once, by udev's `ID_FS_TYPE`. */
export const filesystems: ValueType<readonly string[]> = {
  name: 'list of filesystems',
  range: `at least one, each once: ${knownFilesystems.map((name) => `\`"${name}"\``).join(', ')}`,
  schema: v.pipe(
    v.array(filesystem),
    v.minLength(1, 'must name at least one filesystem; media.detect = false takes no stick at all'),
    v.check((names) => new Set(names).size === names.length, 'must name each filesystem once'),
  ),
};

function isRepository(text: string): boolean {
  return text.includes('/') && isCanonicalReference(`${text}:tag`);
}

const RATE = /^(\d+(?:\.\d+)?)\s*(kbit|Mbit|Gbit)\/s$/;
const BITS: Readonly<Record<string, number>> = { kbit: 1e3, Mbit: 1e6, Gbit: 1e9 };
const RATE_FAULT = 'must be "unlimited", or a rate above 0 such as "200 Mbit/s"';

/** A data rate in the units of networks: `"200 Mbit/s"`. Becomes bytes per second. */
export const dataRate: ValueType<number | 'unlimited'> = {
  name: '`"unlimited"` or data rate',
  unit: 'kbit/s, Mbit/s, Gbit/s (powers of 1000)',
  range: '`"unlimited"`, or more than 0',
  schema: v.union(
    [
      v.literal('unlimited'),
      v.pipe(
        v.string(),
        v.check((text) => bytesPerSecondOf(text) >= 1, RATE_FAULT),
        v.transform(bytesPerSecondOf),
      ),
    ],
    RATE_FAULT,
  ),
};

/** @returns 0 when the text is no rate */
function bytesPerSecondOf(text: string): number {
  const [, amount = '0', unit = ''] = RATE.exec(text) ?? [];
  return Math.floor((Number(amount) * (BITS[unit] ?? 0)) / 8);
}

/** A time zone: `UTC`, `localtime` (that of the node), or a name of the IANA database. */
export const timeZone: ValueType<string> = {
  name: 'string',
  range: '`"UTC"`, `"localtime"`, or a name of the IANA time zone database',
  schema: v.pipe(
    v.string('must be a time zone'),
    v.check(
      (name) => name === 'localtime' || isTimeZone(name),
      'must be a time zone, such as "UTC", "localtime" or "Europe/Berlin"',
    ),
  ),
};

/** Maps the name of a weekday and its first three letters to its place in a week. */
const DAYS = new Map(
  WEEKDAYS.flatMap((name, day) => [name, name.slice(0, 3)].map((text) => [text.toLowerCase(), day] as const)),
);
const DAY_FAULT = 'must be a weekday, such as "Sat" or "Saturday"';

const day = v.pipe(
  v.string(DAY_FAULT),
  v.transform((name) => DAYS.get(name.toLowerCase())),
  v.number(DAY_FAULT),
);

const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;
const LENGTH_FAULT = `must be a whole number of minutes, 1 to ${WEEK_MINUTES}`;

const weeklyWindow = v.pipe(
  v.strictObject({
    days: v.pipe(
      v.array(day, 'must be a list of weekdays, as ["Sat", "Sun"]'),
      v.minLength(1, 'must name at least one weekday'),
      v.check((days) => new Set(days).size === days.length, 'must name each weekday once'),
    ),
    start_time: v.pipe(
      v.string('must be a time in quotes, such as "23:30"'),
      v.regex(TIME, 'must be a time from "00:00" to "23:59"'),
    ),
    length_minutes: v.pipe(
      v.number(LENGTH_FAULT),
      v.integer(LENGTH_FAULT),
      v.minValue(1, LENGTH_FAULT),
      v.maxValue(WEEK_MINUTES, LENGTH_FAULT),
    ),
  }),
  v.transform(({ days, start_time, length_minutes }): WeeklyWindow => {
    const [hours = 0, minutes = 0] = start_time.split(':').map(Number);
    return { days, startMinute: hours * 60 + minutes, lengthMinutes: length_minutes };
  }),
);

/** The most windows of a node. */
const MAX_WINDOWS = 100;

/** Windows that recur each week. Each has `days`, `start_time` and `length_minutes`. */
export const weeklyWindows: ValueType<readonly WeeklyWindow[]> = {
  name: 'list of tables',
  range: '`days`, `start_time` (`"hh:mm"`) and `length_minutes` (1 to 10080)',
  schema: v.pipe(
    v.array(weeklyWindow, 'must be a list of tables, each under its name in double brackets as [[update.windows]]'),
    v.maxLength(MAX_WINDOWS, `must have at most ${MAX_WINDOWS} windows`),
  ),
};
