/**
 * What each architecture is called: by Node.js and npm (the key), by Debian, by RPM, by systemd
 * (os-release(5), `ARCHITECTURE=`), and by readelf.
 */
export const ARCHITECTURES = {
  x64: { deb: 'amd64', rpm: 'x86_64', systemd: 'x86-64', elf: 'Advanced Micro Devices X86-64' },
  arm64: { deb: 'arm64', rpm: 'aarch64', systemd: 'arm64', elf: 'AArch64' },
};
