const PLACEHOLDER = '<removed>';

/**
 * Text for people who may not know secrets of the node: without the given secrets, without names
 * and passwords in addresses, and without the values of words that name a secret
 * (`password=…`, `Authorization: Bearer …`).
 */
export function redacted(text: string, secrets: readonly string[] = []): string {
  const known = secrets
    .filter((secret) => secret.length >= 8)
    .reduce((left, one) => left.replaceAll(one, PLACEHOLDER), text);
  return known
    .replaceAll(/(\w:\/\/)[^\s/@"']+@/g, `$1${PLACEHOLDER}@`)
    .replaceAll(/\b(authorization["']?\s*[:=]\s*["']?)(?:(?:basic|bearer)\s+)?[^\s"',;}]+/gi, `$1${PLACEHOLDER}`)
    .replaceAll(
      /\b([\w-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key)["']?\s*[:=]\s*["']?)[^\s"',;}]+/gi,
      `$1${PLACEHOLDER}`,
    )
    .replaceAll(/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g, PLACEHOLDER);
}
