const ROOT = '/org/freedesktop/systemd1/unit';

/**
 * The D-Bus object of a unit: `crio.service` → `/org/freedesktop/systemd1/unit/crio_2eservice`
 * (systemd, `sd_bus_path_encode`).
 */
export function unitObjectPath(unit: string): string {
  if (unit === '') return `${ROOT}/_`;
  const bytes = [...Buffer.from(unit, 'utf8')];
  return `${ROOT}/${bytes.map((byte, index) => encodeByte(byte, index)).join('')}`;
}

function encodeByte(byte: number, index: number): string {
  const character = String.fromCharCode(byte);
  const plain = index === 0 ? /[A-Za-z]/ : /[A-Za-z0-9]/;
  return plain.test(character) ? character : `_${byte.toString(16).padStart(2, '0')}`;
}

/** The unit whose D-Bus object lies at `path`: the inverse of {@link unitObjectPath}. */
export function unitOfObjectPath(path: string): string {
  const encoded = path.slice(path.lastIndexOf('/') + 1);
  const bytes = encoded.replace(/_([0-9a-f]{2})/g, (_all, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
