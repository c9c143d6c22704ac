import fc from 'fast-check';

/**
 * Checks a property over many generated inputs and says with which seed, so that a run can be had
 * again: `STICKPIN_FUZZ_SEED=… npm test`. `STICKPIN_FUZZ_FACTOR=50` makes that many times more
 * cases.
 *
 * @param what names what is fed, for the line.
 * @param cases how many inputs a usual run tries.
 */
export async function fuzz<Input>(
  what: string,
  cases: number,
  inputs: fc.Arbitrary<Input>,
  check: (input: Input) => void | Promise<void>,
): Promise<void> {
  const { STICKPIN_FUZZ_SEED: wanted, STICKPIN_FUZZ_FACTOR: factor } = process.env;
  const seed = wanted === undefined ? Math.trunc(Math.random() * 2 ** 31) : Number(wanted);
  const numRuns = cases * Number(factor ?? 1);
  process.stdout.write(`fuzz: ${what}: ${numRuns} cases, STICKPIN_FUZZ_SEED=${seed}\n`);
  await fc.assert(
    fc.asyncProperty(inputs, async (input) => {
      await check(input);
    }),
    { seed, numRuns },
  );
}

/**
 * Bytes with a few accidents: bits that flipped, parts that are lost, doubled or foreign, an early
 * end.
 */
export function damagedBytes(good: Uint8Array): fc.Arbitrary<Buffer> {
  const place = fc.nat(Math.max(0, good.length - 1));
  const accident = fc.oneof(
    fc.record({ kind: fc.constant('flip' as const), at: place, bit: fc.nat(7) }),
    fc.record({ kind: fc.constant('lose' as const), at: place, count: fc.integer({ min: 1, max: 600 }) }),
    fc.record({ kind: fc.constant('double' as const), at: place, count: fc.integer({ min: 1, max: 600 }) }),
    fc.record({ kind: fc.constant('insert' as const), at: place, bytes: fc.uint8Array({ maxLength: 40 }) }),
    fc.record({ kind: fc.constant('end' as const), at: place }),
  );
  return fc.array(accident, { minLength: 1, maxLength: 4 }).map((accidents) => {
    let bytes = Buffer.from(good);
    for (const one of accidents) {
      const before = bytes.subarray(0, one.at);
      const rest = bytes.subarray(one.at);
      if (one.kind === 'flip') {
        bytes = Buffer.from(bytes);
        if (one.at < bytes.length) bytes[one.at] = (bytes[one.at] ?? 0) ^ (1 << one.bit);
      }
      if (one.kind === 'lose') bytes = Buffer.concat([before, rest.subarray(one.count)]);
      if (one.kind === 'double') bytes = Buffer.concat([before, rest.subarray(0, one.count), rest]);
      if (one.kind === 'insert') bytes = Buffer.concat([before, one.bytes, rest]);
      if (one.kind === 'end') bytes = Buffer.from(before);
    }
    return bytes;
  });
}

/** Values that parsers stumble over, as JSON text. */
const nasty: readonly string[] = [
  'null',
  'true',
  '0',
  '-0',
  '-1',
  '0.5',
  '1e400',
  '1e21',
  '9007199254740991',
  '9007199254740993',
  '1e-400',
  '""',
  '" "',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\u0000"',
  '"\\u001b[2J"',
  '"\\u202e"',
  '"../../../../etc/passwd"',
  '"sha256:../../../../etc/passwd"',
  '"sha256:ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD"',
  '"%s%n"',
  '[]',
  '{}',
  '[null]',
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  `"${'x'.repeat(5000)}"`,
  `${'['.repeat(4000)}${']'.repeat(4000)}`,
  `${'{"a":'.repeat(4000)}1${'}'.repeat(4000)}`,
  `[${Array(3000).fill('0').join(',')}]`,
];

/** Names that objects have without being given them, and others that nobody expects. */
const nastyNames = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length', '', 'surprise', '\u0000', '0'];

const MARK = '"\u0001here"';

/**
 * The JSON text of `good` in which something is another value, is gone, is there twice, or is there
 * in addition.
 */
export function damagedJson(good: unknown): fc.Arbitrary<string> {
  const paths = pathsOf(good, []);
  return fc
    .record({
      path: fc.constantFrom(...paths),
      kind: fc.constantFrom('replace' as const, 'drop' as const, 'double' as const, 'add' as const),
      name: fc.oneof(fc.constantFrom(...nastyNames), fc.string()),
      value: fc.oneof(fc.constantFrom(...nasty), fc.constantFrom(...nasty), fc.json()),
    })
    .map(({ path, kind, name, value }) => {
      const copy = structuredClone({ root: good }) as { root: unknown };
      const [parent, key] = parentOf(copy, ['root', ...path]);
      const before = JSON.stringify(parent[key]);
      if (kind === 'drop') {
        if (Array.isArray(parent)) parent.splice(Number(key), 1);
        else delete parent[key];
        return JSON.stringify(copy.root) ?? '';
      }
      if (kind === 'double') {
        parent[key] = MARK;
        const named = Array.isArray(parent) ? '' : `${JSON.stringify(key)}:`;
        const twice = path.length === 0 ? `${before},${value}` : `${before},${named}${value}`;
        return JSON.stringify(copy.root).replace(JSON.stringify(MARK), () => twice);
      }
      const at = parent[key];
      if (kind === 'replace' || typeof at !== 'object' || at === null) parent[key] = MARK;
      else if (Array.isArray(at)) at.push(MARK);
      // Assignment would set the prototype instead.
      else Object.defineProperty(at, name, { value: MARK, enumerable: true, configurable: true });
      return JSON.stringify(copy.root).replace(JSON.stringify(MARK), () => value);
    });
}

function pathsOf(value: unknown, at: readonly string[]): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [at];
  return [at, ...Object.entries(value).flatMap(([key, child]) => pathsOf(child, [...at, key]))];
}

function parentOf(root: object, path: readonly string[]): [Record<string, unknown>, string] {
  let parent = root as Record<string, unknown>;
  for (const key of path.slice(0, -1)) parent = parent[key] as Record<string, unknown>;
  return [parent, path.at(-1) ?? ''];
}
