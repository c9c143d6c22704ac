/**
 * A path as a systemd unit name of the given type, as `systemd-escape --path --suffix=mount` gives
 * it (systemd.unit(5), "String Escaping for Inclusion in Unit Names"): `/run/stickpin/media/7-sdb1`
 * → `run-stickpin-media-7\x2dsdb1.mount`.
 */
export function unitNameOfPath(path: string, suffix: 'mount' | 'device'): string {
  const simplified = path.split('/').filter((part) => part !== '' && part !== '.');
  const escaped =
    simplified.length === 0 ? '-' : simplified.map((part, index) => escapePart(part, index === 0)).join('-');
  return `${escaped}.${suffix}`;
}

function escapePart(part: string, isFirst: boolean): string {
  return [...Buffer.from(part, 'utf8')]
    .map((byte, index) => {
      const character = String.fromCharCode(byte);
      const plain = /[A-Za-z0-9:_]/.test(character) || (character === '.' && !(isFirst && index === 0));
      return plain ? character : `\\x${byte.toString(16).padStart(2, '0')}`;
    })
    .join('');
}
