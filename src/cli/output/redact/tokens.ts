/** What stands in place of a secret. */
export const REMOVED = '<removed>';

/** `-----BEGIN …` in base64. */
const ENCODED_PEM = /\bLS0tLS1CRUdJTi[A-Za-z0-9+/]+={0,2}/g;

/** The password of an address may have `@` in it; one that is no port may have `/` too. */
const ADDRESS_WITH_PASSWORD = /(\w:\/\/)[^\s/:@"']*:(?!\d+(?:[/\s"']|$))[^\s"']*@(?!sha\d+:)/g;
const ADDRESS_WITH_NAME = /(\w:\/\/)[^\s/"']+@(?!sha\d+:)/g;
const SIGNED_ADDRESS = /([?&](?:sig|signature|x-amz-[\w-]+|x-goog-[\w-]+)=)[^\s&"']+/gi;

const BEARER = /\b(bearer[ \t]+)(?!realm=|<removed>|(?:tokens?|auth\w*)\b)[^\s"'\\,]+/gi;
const BASIC = /\b(basic[ \t]+)([A-Za-z0-9+/_-]{4,}={0,2})/gi;
const NAME_AND_PASSWORD = /(^|\s)(-u|--user|--proxy-user)([ \t=]+)(?!\d+:\d+(?:\s|$))["']?[^\s:/"']+:[^\s"']+["']?/g;
const WEB_TOKEN = /\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*/g;
/** The token of k3s and RKE2: `K10` and the digest of a certificate, then a name and a password. */
const JOIN_TOKEN = /\bK10[0-9a-f]+::\S+/g;

/**
 * The text without secrets that can be told by their form: tokens, private keys in base64, and
 * names and passwords in addresses and headers.
 */
export function withoutTokens(text: string): string {
  return text
    .replaceAll(ENCODED_PEM, (pem) => (decoded(pem).includes('PRIVATE KEY') ? REMOVED : pem))
    .replaceAll(ADDRESS_WITH_PASSWORD, `$1${REMOVED}@`)
    .replaceAll(ADDRESS_WITH_NAME, `$1${REMOVED}@`)
    .replaceAll(SIGNED_ADDRESS, `$1${REMOVED}`)
    .replaceAll(JOIN_TOKEN, REMOVED)
    .replaceAll(WEB_TOKEN, REMOVED)
    .replaceAll(BEARER, `$1${REMOVED}`)
    .replaceAll(BASIC, (whole, start: string, value: string) =>
      decoded(value).includes(':') ? `${start}${REMOVED}` : whole,
    )
    .replaceAll(NAME_AND_PASSWORD, `$1$2$3${REMOVED}`);
}

function decoded(base64: string): string {
  return Buffer.from(base64, 'base64').toString('latin1');
}
