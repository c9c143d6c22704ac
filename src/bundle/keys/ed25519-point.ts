/** The prime of the field, 2^255 - 19 (RFC 8032, section 5.1). */
const P = 2n ** 255n - 19n;
/** The order of the base point's group (RFC 8032, section 5.1). */
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
/** `-121665 / 121666`. */
const D = mod(-121665n * power(121666n, P - 2n));
/** A square root of -1. */
const ROOT_OF_MINUS_ONE = power(2n, (P - 1n) / 4n);

/** Extended coordinates (RFC 8032, section 5.1.4): `x = X/Z`, `y = Y/Z`, `x * y = T/Z`. */
interface Point {
  readonly X: bigint;
  readonly Y: bigint;
  readonly Z: bigint;
  readonly T: bigint;
}

const IDENTITY: Point = { X: 0n, Y: 1n, Z: 1n, T: 0n };

/**
 * Whether 32 bytes are the one encoding of a point that an Ed25519 key pair can have. OpenSSL takes
 * any 32 bytes. A point of small order verifies signatures that nobody made, and a point with a
 * part of small order is a second public key of one private key. Encodings whose `y` is not below
 * the prime would give one point two key ids (RFC 8032, section 5.1.3).
 */
export function isEd25519PublicKey(encoded: Uint8Array): boolean {
  const name = Buffer.from(encoded).toString('hex');
  const known = JUDGED.get(name);
  if (known !== undefined) return known;
  const point = decode(encoded);
  const isKey = point !== undefined && !isIdentity(point) && isIdentity(multiply(point, L));
  if (JUDGED.size >= MAX_JUDGED) JUDGED.clear();
  JUDGED.set(name, isKey);
  return isKey;
}

/**
 * What was found of the last encodings: a multiplication takes some milliseconds, and the same keys
 * are read at each change of keys.
 */
const JUDGED = new Map<string, boolean>();
const MAX_JUDGED = 1_024;

/**
 * RFC 8032, section 5.1.3. @returns undefined when the bytes are no point of the curve, or not its
 * one encoding
 */
function decode(encoded: Uint8Array): Point | undefined {
  if (encoded.length !== 32) return undefined;
  const bits = BigInt(`0x${Buffer.from(encoded).reverse().toString('hex')}`);
  const [sign, y] = [bits >> 255n, bits & (2n ** 255n - 1n)];
  if (y >= P) return undefined;
  const [u, v] = [mod(y * y - 1n), mod(D * y * y + 1n)];
  let x = mod(u * v ** 3n * power(mod(u * v ** 7n), (P - 5n) / 8n));
  if (mod(v * x * x) === mod(-u)) x = mod(x * ROOT_OF_MINUS_ONE);
  if (mod(v * x * x) !== u || (x === 0n && sign === 1n)) return undefined;
  if ((x & 1n) !== sign) x = P - x;
  return { X: x, Y: y, Z: 1n, T: mod(x * y) };
}

function isIdentity({ X, Y, Z }: Point): boolean {
  return X === 0n && Y === Z;
}

/** Not in constant time: nothing here is secret. */
function multiply(point: Point, factor: bigint): Point {
  let result = IDENTITY;
  for (const bit of factor.toString(2)) {
    result = add(result, result);
    if (bit === '1') result = add(result, point);
  }
  return result;
}

/** RFC 8032, section 5.1.4; complete, so that it doubles too. */
function add(a: Point, b: Point): Point {
  const A = mod((a.Y - a.X) * (b.Y - b.X));
  const B = mod((a.Y + a.X) * (b.Y + b.X));
  const C = mod(2n * a.T * b.T * D);
  const E = mod(2n * a.Z * b.Z);
  const [e, f, g, h] = [B - A, E - C, E + C, B + A];
  return { X: mod(e * f), Y: mod(g * h), Z: mod(f * g), T: mod(e * h) };
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (const bit of exponent.toString(2)) {
    result = mod(result * result);
    if (bit === '1') result = mod(result * base);
  }
  return result;
}

function mod(value: bigint): bigint {
  const rest = value % P;
  return rest < 0n ? rest + P : rest;
}
